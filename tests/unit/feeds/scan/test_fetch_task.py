"""Feeds on their way from the origin to entries and pages, by a real fetcher and real Redis servers."""

import asyncio
from datetime import UTC, datetime, timedelta
from threading import Event

import pytest
from django.http import HttpResponse
from django.test import Client
from pytest_django import Settings

from feeds import credentials
from feeds.models import Category, Entry, Feed, Move, Scan
from feeds.pages.work import FetchThenRender, fetch_page_work, scan_work
from feeds.readings import BodyToRead, FeedReading, NoFeed
from feeds.scan import fetch_task, store
from feeds.schedule.state import FeedStatus
from feeds.tasks import render_feed_page
from resources.fetch.http.messages import Body, BodyDropped, FetchRequest
from resources.fetch.timings import FetchRecord
from resources.sandbox import ChildAllowance
from retry.claim_state import WorkDone, WorkFailed
from retry.work import Work
from tests.hostile.origin import Origin, answer, redirect
from tests.support import fetch_outcomes
from tests.support.feed_pages import read
from tests.support.feed_scans import (
    conditional,
    due_again,
    feed,
    gather,
    in_a_loop,
    in_hand,
    rss,
    scan,
    subscribe,
    titles,
    wait_until,
)
from tests.support.fetcher_threads import WAIT_SECONDS, ended, fetching, want

pytestmark = pytest.mark.usefixtures("feed_redis")


def row(slug: str = "a") -> Feed:
    return Feed.objects.get(slug=slug)


def test_a_new_feed_is_fetched_at_the_next_scan_and_told_when_again_and_why(origin: Origin) -> None:
    subscribe(origin.does("/f", feed(rss("one", "two"))), "a")
    gather()
    found = row()
    assert titles() == ["one", "two"]
    assert found.own_title == "A feed"
    assert found.state == FeedStatus.ACTIVE.value
    assert found.next_check_at > datetime.now(UTC)
    assert "Publishes about every 1 h" in found.reason or "Nothing new for" in found.reason
    assert found.version > 0
    assert Category.objects.get(slug="all").version > 0
    assert found.expected_seconds == pytest.approx(found.last_seconds, rel=0.5)


def test_what_has_not_changed_sends_no_body_and_leaves_the_version(origin: Origin) -> None:
    one = subscribe(origin.does("/f", conditional(rss("one"), '"v1"')), "a")
    gather()
    version = row().version
    due_again(one)
    gather()
    assert row().version == version
    assert [asked.fields.get("if-none-match") for asked in origin.asked] == [None, '"v1"']


def test_a_feed_that_is_too_big_is_not_read_and_said_to_be(settings: Settings, origin: Origin) -> None:
    settings.FEEDS_MAX_BYTES = 1000
    subscribe(origin.does("/f", feed(rss("x" * 1000))), "a")
    gather()
    assert (row().trouble, row().failures) == ("TOO_BIG", 1)
    assert "too big" in row().reason


def test_of_many_entries_the_allowed_number_is_kept(origin: Origin) -> None:
    items = "".join(f"<item><guid>{number}</guid></item>" for number in range(1_200))
    body = f"<rss version='2.0'><channel><title>Many</title>{items}</channel></rss>".encode()
    subscribe(origin.does("/many", feed(body)), "a")
    gather()
    assert Entry.objects.count() == 1_000
    assert row().notes == ["1,000 of 1,200 entries were read."]
    assert row().state == FeedStatus.ACTIVE.value


def test_a_page_that_announces_feeds_is_replaced_by_the_first_which_is_fetched_at_the_next_scan(origin: Origin) -> None:
    page = b"<!doctype html><link rel=alternate type=application/rss+xml href=/feed.xml title=News>"
    origin.does("/feed.xml", feed(rss("one")))
    subscribe(origin.does("/", answer(body=page)), "a")
    gather(lambda: row("a").url == origin.url("/feed.xml") and not in_hand())
    gather()
    assert origin.targets == ["/", "/feed.xml"]
    assert titles() == ["one"]


def test_a_lasting_permanent_redirect_becomes_the_address(origin: Origin) -> None:
    new = origin.does("/new", feed(rss("one")))
    one = subscribe(origin.does("/old", redirect(new, "301 Moved Permanently")), "a")
    for _ in range(4):
        gather()
        days_pass()
        due_again(one)
    assert row().url == new
    gather()
    assert origin.targets[-2:] == ["/new", "/new"]
    assert Move.objects.get().new_url.endswith("/new")
    assert titles() == ["one"]


def days_pass() -> None:
    """Moves the sightings of a redirect to a day earlier."""
    found = row()
    for name in ("first_at", "last_at"):
        if name in found.moving:
            found.moving[name] = (datetime.fromisoformat(found.moving[name]) - timedelta(days=1)).isoformat()
    Feed.objects.filter(pk=found.pk).update(moving=found.moving)


def page_work(one: Feed, version: int = 0) -> Work:
    return fetch_page_work(f"feed:{one.slug}:atom:@{one.pk}", version, one.pk, one.url, f"/feeds/{one.slug}.atom")


def failure_of(one: Feed, version: int = 0) -> tuple[int, str]:
    """The status and the detail that a client gets who waits for a page of the feed."""
    asyncio.run(want(page_work(one, version)))
    found = asyncio.run(ended(page_work(one, version)))
    assert isinstance(found, WorkFailed)
    return found.status, found.detail


def test_a_feed_that_fails_is_not_asked_again_for_another_page(origin: Origin) -> None:
    one = subscribe(origin.does("/f", answer("404 Not Found")), "a")
    for version in range(2):
        assert failure_of(one, version) == (502, "The feed could not be fetched: not found.")
    assert origin.targets == ["/f"]


def test_a_feed_with_a_password_shares_no_answer(origin: Origin) -> None:
    url = origin.does("/f", feed(rss("one")))
    subscribe(url, "a", user="ann", sealed_password=credentials.seal_password("secret"))
    subscribe(url, "b", key_digest="b")
    gather()
    shown = sorted(asked.fields.get("authorization", "") for asked in origin.asked)
    assert shown == ["", "Basic YW5uOnNlY3JldA=="]


@pytest.mark.parametrize(("seconds", "least_minutes"), [(40, 26), (3600, 59)])
def test_a_server_that_asks_for_time_gets_it_and_the_feed_says_so_at_once(
    seconds: int, least_minutes: int, origin: Origin
) -> None:
    url = origin.does("/f", answer("429 Too Many Requests", f"Retry-After: {seconds}"))
    one = subscribe(url, "a")
    gather()
    assert isinstance(asyncio.run(ended(scan_work(one.pk, url))), WorkDone)
    assert origin.targets == ["/f"]
    found = row()
    assert (found.state, found.trouble, found.failures) == ("throttled", "THROTTLED", 0)
    assert found.handed_over_at is None
    assert found.next_check_at > datetime.now(UTC) + timedelta(minutes=least_minutes)


def test_who_asks_for_a_feed_whose_server_asks_for_time_is_told_so_and_so_is_the_feed(origin: Origin) -> None:
    one = subscribe(origin.does("/f", answer("503 Service Unavailable", "Retry-After: 40")), "a")
    assert failure_of(one) == (503, "The feed could not be fetched: too many requests.")
    assert row().trouble == "THROTTLED"


def test_others_are_fetched_and_stored_while_a_feed_takes_long_to_read(
    monkeypatch: pytest.MonkeyPatch, origin: Origin
) -> None:
    is_read, goes_on, read = Event(), Event(), store.READER_POOL.read

    def held(body: Body, question: BodyToRead, allowance: ChildAllowance) -> FeedReading | NoFeed:
        if b"long" in body.read():
            is_read.set()
            assert goes_on.wait(WAIT_SECONDS)
        return read(body, question, allowance)

    monkeypatch.setattr(store.READER_POOL, "read", held)
    subscribe(origin.does("/long", feed(rss("long"))), "long")
    gather(is_read.is_set)
    try:
        subscribe(origin.does("/short", feed(rss("short"))), "short")
        gather(lambda: titles() == ["short"])
    finally:
        goes_on.set()
    gather(lambda: titles() == ["long", "short"])


def test_who_waits_for_a_feed_comes_before_a_whole_scan_of_its_host(settings: Settings) -> None:
    settings.FETCH_IN_FLIGHT = 1

    with in_a_loop(Origin) as origin:
        for path in ("/a", "/b", "/c"):
            subscribe(origin.does(path, feed(rss(path))), path[1:])
        assert scan() == 3
        one = subscribe(origin.does("/wanted", feed(rss("wanted"))), "wanted")
        asyncio.run(want(page_work(one)))
        with in_a_loop(fetching):
            gather(lambda: len(titles()) == 4)
        assert origin.targets[0] == "/wanted"


def got(address: str) -> HttpResponse:
    answered = Client().get(address)
    assert isinstance(answered, HttpResponse)
    return answered


def waited_for(address: str) -> HttpResponse:
    """The answer that ends the wait of a client in the waiting instance."""
    wait_until(lambda: got(address).status_code != 302)
    return got(address)


def shown_titles(found: HttpResponse) -> list[str]:
    assert found.status_code == 200
    return read(found.content, "atom").titles


def make_overdue(by: timedelta) -> None:
    Feed.objects.update(next_check_at=datetime.now(UTC) - by)


def test_who_comes_just_after_a_fetch_gets_what_it_brought_without_another(
    monkeypatch: pytest.MonkeyPatch, origin: Origin
) -> None:
    row = subscribe(origin.does("/f", feed(rss("one"))), "a")
    monkeypatch.setattr("feeds.views.decide_for_feed", lambda _: FetchThenRender(row.version + 1, has_entries=False))
    for format_name in ("atom", "rss", "json"):
        assert (waited_for(f"/feeds/a.{format_name}")).status_code == 200
    assert len(origin.asked) == 1


def test_an_overdue_feed_is_served_as_it_is_while_it_is_fetched(origin: Origin) -> None:
    subscribe(origin.does("/f", feed(rss("one"))), "a")
    waited_for("/feeds/a.atom")
    origin.does("/f", feed(rss("one", "two")))
    make_overdue(timedelta(hours=1))
    assert shown_titles(got("/feeds/a.atom")) == ["one"]
    wait_until(lambda: shown_titles(got("/feeds/a.atom")) == ["two", "one"])
    assert len(origin.asked) == 2


def test_who_reads_nothing_of_an_overdue_feed_yet_gets_what_is_kept_without_a_fetch(
    monkeypatch: pytest.MonkeyPatch, origin: Origin
) -> None:
    subscribe(origin.does("/f", feed(rss("one"))), "a")
    waited_for("/feeds/a.atom")
    make_overdue(timedelta(hours=1))
    handed: list[tuple[str, str, int, tuple[str, ...], str]] = []
    monkeypatch.setattr("retry.lanes.publish_work", lambda *call: handed.append(call))
    assert got("/feeds/a.atom?limit=7").status_code == 302
    ((task, work_key, token, arguments, lane),) = handed
    assert (task, lane) == (render_feed_page.name, "paint.pages")
    render_feed_page(work_key, token, *arguments)
    assert shown_titles(got("/feeds/a.atom?limit=7")) == ["one"]
    assert [(call[0], call[-1]) for call in handed[1:]] == [("feeds.fetch", "fetch.refresh")]
    assert len(origin.asked) == 1


def test_a_feed_that_fails_for_its_first_reader_says_why_and_is_left_alone(origin: Origin) -> None:
    subscribe(origin.does("/f", answer("404 Not Found")), "a")
    for _ in range(3):
        found = waited_for("/feeds/a.atom")
        assert found.status_code == 502
        assert b"not found" in found.content
        assert int(found["Retry-After"]) >= 600
    assert len(origin.asked) == 1


def test_a_feed_that_fails_later_is_served_as_it_was(origin: Origin) -> None:
    subscribe(origin.does("/f", feed(rss("one"))), "a")
    waited_for("/feeds/a.atom")
    origin.does("/f", answer("500 Internal Server Error"))
    make_overdue(timedelta(days=2))
    assert shown_titles(waited_for("/feeds/a.atom?limit=5")) == ["one"]
    assert len(origin.asked) == 2


def test_the_record_of_a_fetch_has_its_scan_and_none_of_one_for_a_client() -> None:
    scanned = Scan.objects.create(started_at=datetime.now(UTC), feeds=1, hosts=1, expected_seconds=1)
    known = subscribe("https://a.example/f", "a", scan=scanned, handed_over_at=datetime.now(UTC))
    for page, number in (("", scanned.pk), ("/feeds/a.atom", None)):
        asked = fetch_task.TASK.fetch(known.url, known.pk, page)
        assert isinstance(asked, FetchRequest)
        outcome = BodyDropped(fetch_outcomes.head(), fetch_outcomes.TIMING)
        assert FetchRecord.of(asked, outcome, scope="", lane="fast").scan == number
