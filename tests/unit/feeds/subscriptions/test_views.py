"""Calls of hubs and clouds: requested ones are confirmed, news are kept or flag the feed, others are refused."""

import random
import xmlrpc.client
from datetime import UTC, datetime, timedelta
from threading import Event
from typing import Any
from unittest.mock import Mock

import pytest
from django.db import connection
from django.http import HttpResponse
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django import DjangoAssertNumQueries, Settings

from feeds import feed_rows, lifecycle
from feeds.hub_models import Subscription
from feeds.models import Feed
from feeds.push.leases import SubscriptionStatus
from feeds.push.websub import SIGNATURE_METHODS, sign_body
from feeds.scan import deliveries, due
from feeds.subscriptions import views
from feeds.subscriptions.views import DebouncedCall
from tests.conftest import RedisServers
from tests.support.feed_hubs import SECRET, subscribed
from tests.support.feed_rows import feed
from tests.support.feed_scans import rss, subscribe
from tests.support.feed_subscriptions import TOKEN, subscription

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("redis_servers", "scans")]

NOW = datetime.now(UTC)
BODY = rss("one", "two")
ADDRESS = "/websub/token-a"


@pytest.fixture
def one() -> Subscription:
    return subscribed(subscribe("https://a.example/feed", "a", fetched_at=NOW), NOW - timedelta(days=1))


@pytest.fixture
def asked(one: Subscription) -> Subscription:
    """One that was asked for just now."""
    fields = {
        "state": SubscriptionStatus.WANTED.value,
        "intent": "subscribe",
        "asked_at": datetime.now(UTC),
        "verified_at": None,
    }
    Subscription.objects.update(**fields, expires_at=None)
    return one


def row() -> Subscription:
    return Subscription.objects.select_related("feed").get()


def verify(client: Client, mode: str = "subscribe", address: str = ADDRESS, **more: str) -> HttpResponse:
    known = {"mode": mode, "topic": "https://a.example/feed", "challenge": "c0ffee", "lease_seconds": "3600"}
    return client.get(address, {f"hub.{name}": value for name, value in {**known, **more}.items()})  # type: ignore[return-value]


def deliver(client: Client, body: bytes = BODY, signature: str | None = None, **more: str) -> int:
    """Signed as it should be, unless something else is said."""
    given = {"content_type": "application/rss+xml", "address": ADDRESS, **more}
    signed = sign_body(body, SECRET) if signature is None else signature
    headers = {"X-Hub-Signature": signed} if signed else {}
    return client.post(given["address"], body, content_type=given["content_type"], headers=headers).status_code


def kept() -> list[bytes]:
    return [one.body for one in deliveries.waiting_deliveries(Feed.objects.get().pk)]


def is_untouched() -> bool:
    """Nothing is kept, and nothing will be fetched."""
    feed = Feed.objects.get()
    return (feed.flagged_at, feed.pushed_at, kept()) == (None, None, [])


def test_what_was_asked_for_is_confirmed_with_the_challenge_and_in_force_for_what_is_granted(
    client: Client, asked: Subscription
) -> None:
    answer = verify(client)
    assert (answer.status_code, answer.content) == (200, b"c0ffee")
    assert answer["Content-Type"].startswith("text/plain")
    assert answer["X-Content-Type-Options"] == "nosniff"
    found = row()
    assert (found.state, found.intent) == (SubscriptionStatus.VERIFIED.value, "")
    assert found.verified_at is not None
    assert found.expires_at == found.verified_at + timedelta(hours=1)


@pytest.mark.parametrize(
    ("more", "status"),
    [
        pytest.param({"topic": "https://other.example/feed"}, 404, id="another topic"),
        pytest.param({"mode": "unsubscribe"}, 404, id="an end that nobody wants"),
        pytest.param({"address": "/websub/another"}, 404, id="another address"),
        pytest.param({"challenge": ""}, 400, id="no challenge"),
        pytest.param({"mode": "nonsense"}, 400, id="no mode"),
    ],
)
def test_a_forged_verification_changes_nothing(
    client: Client, asked: Subscription, more: dict[str, str], status: int
) -> None:
    answer = verify(client, **more)
    assert answer.status_code == status
    assert b"c0ffee" not in answer.content
    assert (row().state, row().intent) == (SubscriptionStatus.WANTED.value, "subscribe")


@pytest.mark.parametrize("mode", ["subscribe", "unsubscribe", "denied"])
def test_who_does_not_know_the_address_has_nothing_written(client: Client, asked: Subscription, mode: str) -> None:
    with CaptureQueriesContext(connection) as queries:
        assert verify(client, mode, "/websub/guessed").status_code == 404
    assert [query["sql"].split()[0] for query in queries] == ["SELECT"]


@pytest.mark.parametrize("mode", ["subscribe", "denied"])
def test_what_no_database_holds_names_nothing(
    client: Client, one: Subscription, mode: str, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(0):
        assert verify(client, mode, topic="https://a.example/\0").status_code == 404
        assert verify(client, mode, "/websub/%00").status_code == 404
    assert verify(client, "denied", reason="no\0 more").status_code == 200
    assert "no more." in row().reason


def test_a_verification_is_answered_once_and_not_long_after(client: Client, asked: Subscription) -> None:
    assert verify(client).status_code == 200
    assert verify(client).status_code == 404
    Subscription.objects.update(intent="subscribe", asked_at=NOW - timedelta(days=2))
    assert verify(client).status_code == 404


def test_an_end_that_was_asked_for_is_confirmed_and_the_address_is_gone(client: Client, one: Subscription) -> None:
    Subscription.objects.update(
        state=SubscriptionStatus.LEAVING.value, intent="unsubscribe", asked_at=datetime.now(UTC)
    )
    assert verify(client, "subscribe").status_code == 404
    assert deliver(client) == 410
    assert verify(client, "unsubscribe").content == b"c0ffee"
    assert row().state == SubscriptionStatus.ENDED.value
    assert deliver(client) == 410
    assert is_untouched()


def test_a_denial_of_another_topic_changes_nothing(client: Client, one: Subscription) -> None:
    assert verify(client, "denied", topic="https://other.example/feed").status_code == 404
    assert row().state == SubscriptionStatus.VERIFIED.value
    assert verify(client, "denied", reason="<b>closed</b>").content == b""
    assert row().state == SubscriptionStatus.DENIED.value
    assert "<b>closed</b>." in row().reason


@pytest.mark.parametrize("method", SIGNATURE_METHODS)
def test_a_delivery_that_is_signed_is_kept_and_flags_the_feed(client: Client, one: Subscription, method: str) -> None:
    assert deliver(client, signature=sign_body(BODY, SECRET, method)) == 200
    assert kept() == [BODY]
    feed = Feed.objects.get()
    assert feed.flagged_at is not None
    assert feed.flagged_at == feed.pushed_at == deliveries.waiting_deliveries(feed.pk)[0].received_at


@pytest.mark.parametrize(
    ("given", "status"),
    [
        pytest.param({"signature": ""}, 403, id="no signature"),
        pytest.param({"signature": sign_body(BODY, "another")}, 403, id="another secret"),
        pytest.param({"signature": sign_body(BODY + b" ", SECRET)}, 403, id="another body"),
        pytest.param({"signature": "md5=00"}, 403, id="another method"),
        pytest.param({"address": "/websub/another"}, 404, id="another address"),
        pytest.param({"address": "/websub/" + "x" * 2000}, 404, id="a long address"),
        pytest.param({"content_type": "application/x-www-form-urlencoded"}, 415, id="a form"),
        pytest.param({"content_type": "multipart/form-data; boundary=x"}, 415, id="files"),
        pytest.param({"body": b"x" * 2001, "signature": sign_body(b"x" * 2001, SECRET)}, 413, id="too large"),
    ],
)
def test_a_forged_or_oversized_delivery_is_refused_and_nothing_is_kept(
    client: Client, settings: Settings, one: Subscription, given: dict[str, str], status: int
) -> None:
    settings.FEEDS_PUSH_MAX_BYTES = 2000
    assert deliver(client, **given) == status  # type: ignore[arg-type]
    assert is_untouched()


def test_a_delivery_that_is_replayed_changes_nothing(client: Client, one: Subscription) -> None:
    assert deliver(client) == 200
    deliveries.drop_read_deliveries(Feed.objects.get().pk, 1)
    Feed.objects.update(flagged_at=None, pushed_at=None)
    assert deliver(client) == 200  # a hub that lost our answer stops then
    assert is_untouched()
    assert deliver(client, rss("three")) == 200
    assert kept() == [rss("three")]


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        pytest.param({"state": SubscriptionStatus.WANTED.value, "verified_at": None}, 404, id="never verified"),
        pytest.param({"state": SubscriptionStatus.DENIED.value}, 404, id="denied"),
        pytest.param({"expires_at": NOW}, 404, id="expired"),
        pytest.param({"state": SubscriptionStatus.LEAVING.value}, 410, id="leaving"),
        pytest.param({"state": SubscriptionStatus.ENDED.value, "feed": None}, 410, id="deleted"),
    ],
)
def test_what_is_delivered_to_no_subscription_is_refused(
    client: Client, one: Subscription, fields: dict[str, object], status: int
) -> None:
    Subscription.objects.update(**fields)
    assert deliver(client) == status
    assert is_untouched()


def test_what_is_delivered_for_a_paused_feed_is_gone(client: Client, one: Subscription) -> None:
    Feed.objects.update(paused=True)
    assert deliver(client) == 410
    assert is_untouched()


@pytest.mark.parametrize(("body", "has_secret"), [(BODY, False), (b"", True)], ids=["unsigned", "empty"])
def test_a_delivery_that_proves_or_says_nothing_is_a_ping(
    client: Client, one: Subscription, body: bytes, has_secret: bool
) -> None:
    if not has_secret:
        Subscription.objects.update(sealed_secret="")
    assert deliver(client, body) == 200
    assert Feed.objects.get().flagged_at is not None
    assert kept() == []


def test_a_hub_is_asked_to_come_again_while_what_it_delivered_cannot_be_told_apart(
    client: Client, one: Subscription, redis_servers: RedisServers
) -> None:
    redis_servers.state.stop()
    assert deliver(client) == 503
    assert (Feed.objects.get().flagged_at, kept()) == (None, [])


def test_where_nothing_can_be_kept_the_feed_is_flagged_all_the_same(
    client: Client, one: Subscription, redis_servers: RedisServers
) -> None:
    redis_servers.cache.stop()
    assert deliver(client) == 200
    assert Feed.objects.get().flagged_at is not None


WAIT_SECONDS = 10


def test_many_who_ask_at_once_have_it_called_once_and_who_asks_during_the_call_has_it_called_again() -> None:
    begun, go_on, ended = Event(), Event(), Event()
    calls: list[int] = []

    def call() -> None:
        calls.append(len(calls))
        begun.set()
        if len(calls) > 1:
            ended.set()
        assert go_on.wait(WAIT_SECONDS)

    debounced = DebouncedCall(call, 0.02)
    for _ in range(100):
        debounced.soon()
    assert begun.wait(WAIT_SECONDS)
    assert calls == [0]
    debounced.soon()
    go_on.set()
    assert ended.wait(WAIT_SECONDS)
    assert calls == [0, 1]


def test_who_asks_during_a_cool_down_is_scanned_for_when_that_is_over_however_many_ask_after_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, called_at, luck = [1000.0], list[float](), random.Random(7)

    def timer(seconds: float, call: object) -> Mock:
        called_at.append(now[0] + seconds)
        return Mock()

    monkeypatch.setattr(views, "Timer", timer)
    monkeypatch.setattr(views, "time", Mock(monotonic=lambda: now[0]))
    real = views.LATER_SCAN_CALL
    later = DebouncedCall(Mock(), real._together_seconds, real._wait_seconds)
    asked = sorted(1000 + luck.uniform(0, 60) for _ in range(300))
    for now[0] in asked:
        later.soon()
    assert all(any(14.999 < call - at < 16 for call in called_at) for at in asked)
    assert len(called_at) < 90


PATH = f"/rsscloud/{TOKEN}"
FORM = "application/x-www-form-urlencoded"
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def cloud_feed() -> Feed:
    found = feed("a", fetch_began_at=LONG_AGO)
    subscription(found)
    return found


def ping(client: Client, url: str, path: str = PATH) -> HttpResponse:
    return client.post(path, f"url={url}", content_type=FORM)  # type: ignore[return-value]


@pytest.mark.parametrize("path", [PATH, "/rsscloud/%00"])
def test_what_no_database_holds_names_no_feed_of_a_cloud(
    client: Client, cloud_feed: Feed, path: str, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(0):
        assert ping(client, "https://a.example/%00", path).status_code == 404
        assert client.get(path, {"url": "\0", "challenge": "c"}).status_code == 404


@pytest.mark.parametrize("path", [ADDRESS, PATH])
@pytest.mark.parametrize("method", ["put", "delete", "patch", "head"])
def test_other_methods_are_refused(client: Client, path: str, method: str) -> None:
    answer = getattr(client, method)(path)
    assert (answer.status_code, answer["Allow"]) == (405, "GET, POST")


def flagged() -> bool:
    return Feed.objects.filter(flagged_at__isnull=False).exists()


def test_a_ping_flags_the_feed_in_one_statement_and_asks_for_a_scan(
    client: Client, cloud_feed: Feed, scans: list[str], django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(1):
        answer = ping(client, cloud_feed.url)
    assert answer.status_code == 200
    assert answer["Cache-Control"] == "no-store"
    found = Feed.objects.get()
    assert found.flagged_at is not None
    assert found.pushed_at == found.flagged_at
    assert scans == ["soon"]
    assert [one.pk for one in due.due_feeds(datetime.now(UTC), 10)] == [cloud_feed.pk]


def test_a_feed_that_is_flagged_already_stays_as_it_is(client: Client, cloud_feed: Feed, scans: list[str]) -> None:
    ping(client, cloud_feed.url)
    first = Feed.objects.get()
    assert ping(client, cloud_feed.url).status_code == 200
    again = Feed.objects.get()
    assert (again.flagged_at, again.pushed_at) == (first.flagged_at, first.pushed_at)
    assert scans == ["soon"]


@pytest.mark.parametrize("is_in_hand", [True, False])
def test_pings_do_not_have_a_feed_fetched_again_and_again(
    client: Client, cloud_feed: Feed, settings: Settings, scans: list[str], is_in_hand: bool
) -> None:
    now = datetime.now(UTC)
    in_hand = {"flagged_at": now - timedelta(seconds=2), "handed_over_at": now - timedelta(seconds=1)}
    Feed.objects.update(**(in_hand if is_in_hand else {"fetch_began_at": now}))
    assert ping(client, cloud_feed.url).status_code == 200
    assert due.due_feeds(datetime.now(UTC), 10) == []
    later = datetime.now(UTC) + timedelta(seconds=settings.FEEDS_PUSH_COOL_SECONDS)
    assert [one.pk for one in due.due_feeds(later, 10)] == [cloud_feed.pk]
    assert scans == ["later"]


def test_a_ping_does_not_put_off_what_an_admin_wants_fetched(client: Client, cloud_feed: Feed) -> None:
    Feed.objects.update(fetch_began_at=datetime.now(UTC))
    feed_rows.flag_feeds([cloud_feed.pk], datetime.now(UTC))
    assert ping(client, cloud_feed.url).status_code == 200
    assert [one.pk for one in due.due_feeds(datetime.now(UTC), 10)] == [cloud_feed.pk]
    assert Feed.objects.get().pushed_at is not None


def test_a_call_by_xml_rpc_flags_it_too_and_is_told_true(client: Client, cloud_feed: Feed) -> None:
    call = xmlrpc.client.dumps((cloud_feed.url,), "rssCloud.notify")
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
    client: Client, cloud_feed: Feed, path: str, url: str, scans: list[str]
) -> None:
    assert ping(client, url, path).status_code == 404
    assert not flagged()
    assert scans == []


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
    client: Client, cloud_feed: Feed, body: str | bytes, content_type: str, status: int
) -> None:
    answer = client.post(PATH, body, content_type=content_type)
    assert (answer.status_code, answer["Content-Type"]) == (status, "application/problem+json")
    assert answer.json()["detail"]
    assert not flagged()


def test_a_subscription_that_has_ended_or_whose_feed_is_paused_or_deleted_takes_nothing(
    client: Client, cloud_feed: Feed
) -> None:
    for state in (SubscriptionStatus.ENDED, SubscriptionStatus.LEAVING):
        Subscription.objects.update(state=state.value)
        assert ping(client, cloud_feed.url).status_code == 404
    Subscription.objects.update(state=SubscriptionStatus.VERIFIED.value)
    lifecycle.pause_feeds([cloud_feed.pk], datetime.now(UTC))
    assert ping(client, cloud_feed.url).status_code == 404
    assert not flagged()
    lifecycle.remove_feeds([cloud_feed.pk], datetime.now(UTC))
    assert ping(client, cloud_feed.url).status_code == 404


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
