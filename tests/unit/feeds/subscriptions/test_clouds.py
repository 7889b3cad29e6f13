"""Calls of clouds, and their answers. No call fetches anything."""

import xmlrpc.client
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client
from pytest_django import DjangoAssertNumQueries, Settings

from feeds import feed_rows, lifecycle
from feeds.models import Feed
from feeds.push.leases import SubscriptionStatus
from feeds.scan import due
from tests.support.feed_rows import feed
from tests.support.feed_subscriptions import TOKEN, subscription

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("scans")]

PATH = f"/rsscloud/{TOKEN}"
FORM = "application/x-www-form-urlencoded"
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def row() -> Feed:
    found = feed("a", fetch_began_at=LONG_AGO)
    subscription(found)
    return found


def ping(client: Client, url: str, path: str = PATH) -> HttpResponse:
    return client.post(path, f"url={url}", content_type=FORM)  # type: ignore[return-value]


@pytest.mark.parametrize("path", [PATH, "/rsscloud/%00"])
def test_what_no_database_holds_names_no_feed(
    client: Client, row: Feed, path: str, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(0):
        assert ping(client, "https://a.example/%00", path).status_code == 404
        assert client.get(path, {"url": "\0", "challenge": "c"}).status_code == 404


def flagged() -> bool:
    return Feed.objects.filter(flagged_at__isnull=False).exists()


def test_a_ping_flags_the_feed_in_one_statement_and_asks_for_a_scan(
    client: Client, row: Feed, scans: list[str], django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(1):
        answer = ping(client, row.url)
    assert answer.status_code == 200
    assert answer["Cache-Control"] == "no-store"
    found = Feed.objects.get()
    assert found.flagged_at is not None
    assert found.pushed_at == found.flagged_at
    assert scans == ["soon"]
    assert [one.pk for one in due.due_feeds(datetime.now(UTC), 10)] == [row.pk]


def test_a_feed_that_is_flagged_already_stays_as_it_is(client: Client, row: Feed, scans: list[str]) -> None:
    ping(client, row.url)
    first = Feed.objects.get()
    assert ping(client, row.url).status_code == 200
    again = Feed.objects.get()
    assert (again.flagged_at, again.pushed_at) == (first.flagged_at, first.pushed_at)
    assert scans == ["soon"]


def test_a_ping_while_the_feed_is_in_hand_has_it_fetched_once_more_and_not_at_once(
    client: Client, row: Feed, settings: Settings
) -> None:
    now = datetime.now(UTC)
    Feed.objects.update(flagged_at=now - timedelta(seconds=2), handed_over_at=now - timedelta(seconds=1))
    assert ping(client, row.url).status_code == 200
    assert due.due_feeds(datetime.now(UTC), 10) == []
    later = datetime.now(UTC) + timedelta(seconds=settings.FEEDS_PUSH_COOL_SECONDS)
    assert [one.pk for one in due.due_feeds(later, 10)] == [row.pk]


def test_pings_do_not_have_a_feed_fetched_again_and_again(
    client: Client, row: Feed, settings: Settings, scans: list[str]
) -> None:
    Feed.objects.update(fetch_began_at=datetime.now(UTC))
    assert ping(client, row.url).status_code == 200
    assert due.due_feeds(datetime.now(UTC), 10) == []
    later = datetime.now(UTC) + timedelta(seconds=settings.FEEDS_PUSH_COOL_SECONDS)
    assert [one.pk for one in due.due_feeds(later, 10)] == [row.pk]
    assert scans == ["later"]


def test_a_ping_does_not_put_off_what_an_admin_wants_fetched(client: Client, row: Feed) -> None:
    Feed.objects.update(fetch_began_at=datetime.now(UTC))
    feed_rows.flag_feeds([row.pk], datetime.now(UTC))
    assert ping(client, row.url).status_code == 200
    assert [one.pk for one in due.due_feeds(datetime.now(UTC), 10)] == [row.pk]
    assert Feed.objects.get().pushed_at is not None


def test_a_call_by_xml_rpc_flags_it_too_and_is_told_true(client: Client, row: Feed) -> None:
    call = xmlrpc.client.dumps((row.url,), "rssCloud.notify")
    answer = client.post(PATH, call, content_type="text/xml")
    assert xmlrpc.client.loads(answer.content) == ((True,), None)
    assert answer["Content-Type"] == "text/xml"
    assert flagged()


@pytest.mark.parametrize(
    ("path", "url"),
    [
        ("/rsscloud/another-token", "https://a.example.org/feed"),
        ("/rsscloud/", "https://a.example.org/feed"),
        (PATH, "https://b.example.org/feed"),
        (PATH, "https://a.example.org/feed/"),
    ],
)
def test_a_ping_that_was_not_registered_is_404_and_flags_nothing(
    client: Client, row: Feed, path: str, url: str, scans: list[str]
) -> None:
    assert ping(client, url, path).status_code == 404
    assert not flagged()
    assert scans == []


@pytest.mark.parametrize("state", [SubscriptionStatus.ENDED, SubscriptionStatus.LEAVING])
def test_a_subscription_that_has_ended_takes_nothing(client: Client, state: SubscriptionStatus) -> None:
    found = feed("a")
    subscription(found, state=state.value)
    assert ping(client, found.url).status_code == 404
    assert not flagged()


def test_feeds_that_are_paused_or_deleted_take_nothing(client: Client, row: Feed) -> None:
    lifecycle.pause_feeds([row.pk], datetime.now(UTC))
    assert ping(client, row.url).status_code == 404
    lifecycle.remove_feeds([row.pk], datetime.now(UTC))
    assert ping(client, row.url).status_code == 404
    assert not flagged()


@pytest.mark.parametrize(
    ("body", "content_type", "status"),
    [
        ("url=a&url=b", FORM, 400),
        ("url=", FORM, 400),
        (b"url=\xff", FORM, 400),
        ("&".join(f"url{number}=a" for number in range(50)), FORM, 400),
        ("<methodCall>", "text/xml", 400),
        ("<methodResponse/>", "text/xml", 400),
        ("<methodCall><methodName>rssCloud.notify</methodName></methodCall>", "text/xml", 400),
        ('<!DOCTYPE a [<!ENTITY b "c">]><methodCall>&b;</methodCall>', "text/xml", 400),
        ('{"url": "https://a.example.org/feed"}', "application/json", 415),
        ("url=https://a.example.org/feed", "text/plain", 415),
        ("url=" + "a" * 8200, FORM, 413),
    ],
)
def test_what_is_no_ping_is_refused_in_words(
    client: Client, row: Feed, body: str | bytes, content_type: str, status: int
) -> None:
    answer = client.post(PATH, body, content_type=content_type)
    assert (answer.status_code, answer["Content-Type"]) == (status, "application/problem+json")
    assert answer.json()["detail"]
    assert not flagged()


@pytest.mark.parametrize("method", ["put", "delete", "patch", "head"])
def test_other_methods_are_refused(client: Client, row: Feed, method: str) -> None:
    answer = getattr(client, method)(PATH)
    assert (answer.status_code, answer["Allow"]) == (405, "GET, POST")


def challenge(client: Client, **query: str) -> HttpResponse:
    return client.get(PATH, query)  # type: ignore[return-value]


def test_a_challenge_is_answered_while_the_subscription_is_asked_for(client: Client) -> None:
    found = feed("a")
    subscription(found, state=SubscriptionStatus.WANTED.value, intent="subscribe")
    answer = challenge(client, url=found.url, challenge="<b>abc</b>")
    assert (answer.status_code, answer.content) == (200, b"<b>abc</b>")
    assert answer["Content-Type"].startswith("text/plain")
    assert answer["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    ("fields", "query", "status"),
    [
        ({"intent": ""}, {"challenge": "a"}, 404),
        ({"asked_at": LONG_AGO}, {"challenge": "a"}, 404),
        ({}, {"url": "https://b.example.org/feed", "challenge": "a"}, 404),
        ({}, {"challenge": ""}, 400),
        ({}, {"challenge": "a" * 1001}, 400),
    ],
)
def test_a_challenge_that_nobody_asked_for_is_not_answered(
    client: Client, fields: dict[str, Any], query: dict[str, str], status: int
) -> None:
    found = feed("a")
    subscription(found, **{"intent": "subscribe", **fields})
    assert challenge(client, **{"url": found.url, **query}).status_code == status
