"""Feeds on their way from the origin to stored entries, by a real fetcher and real Redis servers."""

import asyncio
from datetime import UTC, datetime, timedelta
from threading import Event

import pytest
from pytest_django import Settings

from feeds import credentials
from feeds.models import Category, Entry, Feed, Move
from feeds.pages.work import fetch_page_work, scan_work
from feeds.readings import BodyToRead, FeedReading, NoFeed
from feeds.scan import store
from feeds.schedule.state import FeedStatus
from resources.fetch.http.messages import Body
from resources.sandbox import ChildAllowance
from retry.claim_state import WorkDone, WorkFailed
from retry.work import Work
from tests.hostile.origin import Origin, answer, redirect
from tests.support.feed_scans import (
    conditional,
    due_again,
    feed,
    gather,
    gathered_from,
    in_hand,
    rss,
    scan,
    subscribe,
    titles,
)
from tests.support.fetcher_threads import WAIT_SECONDS, content, ended, fetching, want
from tests.support.mirror_runs import in_a_thread

pytestmark = pytest.mark.usefixtures("gathering")


def row(slug: str = "a") -> Feed:
    return Feed.objects.get(slug=slug)


def test_a_new_feed_is_fetched_at_the_next_scan_and_told_when_again_and_why() -> None:
    async def test(origin: Origin) -> None:
        await in_a_thread(subscribe)(origin.does("/f", feed(rss("one", "two"))), "a")
        await gather()

    gathered_from(test)
    found = row()
    assert titles() == ["one", "two"]
    assert found.own_title == "A feed"
    assert found.state == FeedStatus.ACTIVE.value
    assert found.next_check_at > datetime.now(UTC)
    assert "Publishes about every 1 h" in found.reason or "Nothing new for" in found.reason
    assert found.version > 0
    assert Category.objects.get(slug="all").version > 0
    assert found.expected_seconds == pytest.approx(found.last_seconds, rel=0.5)


def test_what_has_not_changed_sends_no_body_and_leaves_the_version() -> None:
    async def test(origin: Origin) -> None:
        one = await in_a_thread(subscribe)(origin.does("/f", conditional(rss("one"), '"v1"')), "a")
        await gather()
        version = (await in_a_thread(row)()).version
        await in_a_thread(due_again)(one)
        await gather()
        assert (await in_a_thread(row)()).version == version
        assert [asked.fields.get("if-none-match") for asked in origin.asked] == [None, '"v1"']

    gathered_from(test)


def test_an_edit_replaces_what_is_kept_and_raises_the_version() -> None:
    async def test(origin: Origin) -> None:
        one = await in_a_thread(subscribe)(origin.does("/f", feed(rss("one", "two"))), "a")
        await gather()
        version = (await in_a_thread(row)()).version
        origin.does("/f", feed(rss("one edited", "three")))
        await in_a_thread(due_again)(one)
        await gather()
        assert (await in_a_thread(row)()).version > version

    gathered_from(test)
    assert titles() == ["one edited", "three", "two"]
    assert [entry.title for entry in Entry.objects.filter(left_at__isnull=False)] == ["two"]


def test_what_is_no_feed_is_said_to_be_none_and_tried_again_later() -> None:
    async def test(origin: Origin) -> None:
        await in_a_thread(subscribe)(origin.does("/", answer(body=b"<!doctype html><p>Hello")), "a")
        await gather()

    gathered_from(test)
    found = row()
    assert (found.state, found.trouble, found.failures) == ("failing", "UNREADABLE", 1)
    assert "This is a web page, not a feed." in found.reason


@pytest.mark.parametrize(
    ("status", "trouble"), [("404 Not Found", "MISSING"), ("410 Gone", "GONE"), ("500 Oh", "SERVER")]
)
def test_a_failure_is_counted_by_its_kind(status: str, trouble: str) -> None:
    async def test(origin: Origin) -> None:
        await in_a_thread(subscribe)(origin.does("/f", answer(status)), "a")
        await gather()

    gathered_from(test)
    assert (row().trouble, row().failures, row().handed_over_at) == (trouble, 1, None)


def test_a_feed_that_is_too_big_is_not_read_and_said_to_be(settings: Settings) -> None:
    settings.FEEDS_MAX_BYTES = 1000

    async def test(origin: Origin) -> None:
        await in_a_thread(subscribe)(origin.does("/f", feed(rss("x" * 1000))), "a")
        await gather()

    gathered_from(test)
    assert (row().trouble, row().failures) == ("TOO_BIG", 1)
    assert "too big" in row().reason


def test_of_a_hundred_thousand_entries_some_are_kept_and_what_is_too_large_is_refused(settings: Settings) -> None:
    settings.FEEDS_READ_SECONDS = 100  # on a machine that does other things as well
    item = "<item><guid isPermaLink='false'>{0}</guid><title>Entry {0}</title><description>{1}</description></item>"
    many = "".join(item.format(number, "A text. " * 15) for number in range(100_000))
    body = f"<rss version='2.0'><channel><title>Many</title>{many}</channel></rss>".encode()
    assert 20_000_000 < len(body) < 25_000_000

    async def test(origin: Origin) -> None:
        await in_a_thread(subscribe)(origin.does("/many", feed(body)), "many")
        await in_a_thread(subscribe)(origin.does("/large", feed(body + body)), "large")
        await in_a_thread(subscribe)(origin.does("/short", feed(rss("short"))), "short")
        await gather()

    gathered_from(test)
    assert Entry.objects.filter(feed__slug="many").count() == 1_000
    assert "1,000" in " ".join(row("many").notes)
    assert (row("large").trouble, Entry.objects.filter(feed__slug="large").count()) == ("TOO_BIG", 0)
    assert row("short").state == row("many").state == FeedStatus.ACTIVE.value


def test_a_page_that_announces_feeds_is_replaced_by_the_first_which_is_fetched_at_the_next_scan() -> None:
    async def test(origin: Origin) -> None:
        page = b"<!doctype html><link rel=alternate type=application/rss+xml href=/feed.xml title=News>"
        origin.does("/feed.xml", feed(rss("one")))
        await in_a_thread(subscribe)(origin.does("/", answer(body=page)), "a")
        await gather(lambda: row("a").url == origin.url("/feed.xml") and not in_hand())
        await gather()
        assert origin.targets == ["/", "/feed.xml"]

    gathered_from(test)
    assert titles() == ["one"]


def test_a_lasting_permanent_redirect_becomes_the_address() -> None:
    async def test(origin: Origin) -> None:
        new = origin.does("/new", feed(rss("one")))
        one = await in_a_thread(subscribe)(origin.does("/old", redirect(new, "301 Moved Permanently")), "a")
        for _ in range(4):
            await gather()
            await in_a_thread(days_pass)()
            await in_a_thread(due_again)(one)
        assert (await in_a_thread(row)()).url == new
        await gather()
        assert origin.targets[-2:] == ["/new", "/new"]

    gathered_from(test)
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


async def failure_of(one: Feed, version: int = 0) -> tuple[int, str]:
    """The status and the detail that a client gets who waits for a page of the feed."""
    await want(page_work(one, version))
    found = await ended(page_work(one, version))
    assert isinstance(found, WorkFailed)
    return found.status, found.detail


def test_who_asks_for_a_feed_that_was_never_fetched_gets_a_page_of_it() -> None:
    async def test(origin: Origin) -> None:
        one = await in_a_thread(subscribe)(origin.does("/f", feed(rss("one"))), "a")
        await want(page_work(one))
        assert isinstance(await ended(page_work(one)), WorkDone)
        found = await content(f"feed:a:atom:@{one.pk}")
        assert found is not None
        assert b"<title>one</title>" in found.body

    gathered_from(test)


def test_who_asks_for_a_feed_that_fails_is_told_so_and_its_server_is_not_asked_again() -> None:
    async def test(origin: Origin) -> None:
        one = await in_a_thread(subscribe)(origin.does("/f", answer("404 Not Found")), "a")
        for number in range(2):
            detail = "The feed could not be fetched: not found."
            assert await failure_of(one, number) == (502, detail)
        assert origin.targets == ["/f"]

    gathered_from(test)


def test_a_feed_with_a_password_shares_no_answer() -> None:
    async def test(origin: Origin) -> None:
        url = origin.does("/f", feed(rss("one")))
        await in_a_thread(subscribe)(url, "a", user="ann", sealed_password=credentials.seal_password("secret"))
        await in_a_thread(subscribe)(url, "b", key_digest="b")
        await gather()
        shown = sorted(asked.fields.get("authorization", "") for asked in origin.asked)
        assert shown == ["", "Basic YW5uOnNlY3JldA=="]

    gathered_from(test)


@pytest.mark.parametrize(("seconds", "least_minutes"), [(40, 26), (3600, 59)])
def test_a_server_that_asks_for_time_gets_it_and_the_feed_says_so_at_once(seconds: int, least_minutes: int) -> None:
    async def test(origin: Origin) -> None:
        url = origin.does("/f", answer("429 Too Many Requests", f"Retry-After: {seconds}"))
        one = await in_a_thread(subscribe)(url, "a")
        await gather()
        assert isinstance(await ended(scan_work(one.pk, url)), WorkDone)
        assert origin.targets == ["/f"]

    gathered_from(test)
    found = row()
    assert (found.state, found.trouble, found.failures) == ("throttled", "THROTTLED", 0)
    assert found.handed_over_at is None
    assert found.next_check_at > datetime.now(UTC) + timedelta(minutes=least_minutes)


def test_who_asks_for_a_feed_whose_server_asks_for_time_is_told_so_and_so_is_the_feed() -> None:
    async def test(origin: Origin) -> None:
        url = origin.does("/f", answer("503 Service Unavailable", "Retry-After: 40"))
        one = await in_a_thread(subscribe)(url, "a")
        detail = "The feed could not be fetched: too many requests."
        assert await failure_of(one) == (503, detail)

    gathered_from(test)
    assert row().trouble == "THROTTLED"


def test_what_was_flagged_while_it_was_fetched_stays_flagged() -> None:
    async def test(origin: Origin) -> None:
        one = await in_a_thread(subscribe)(origin.does("/f", feed(rss("one"))), "a")
        later = datetime.now(UTC) + timedelta(seconds=30)
        await in_a_thread(Feed.objects.filter(pk=one.pk).update)(flagged_at=later)
        await gather()
        assert (await in_a_thread(row)()).flagged_at == later

    gathered_from(test)


def test_others_are_fetched_and_stored_while_a_feed_takes_long_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    is_read, goes_on, read = Event(), Event(), store.READER_POOL.read

    def held(body: Body, question: BodyToRead, allowance: ChildAllowance) -> FeedReading | NoFeed:
        if b"long" in body.read():
            is_read.set()
            assert goes_on.wait(WAIT_SECONDS)
        return read(body, question, allowance)

    monkeypatch.setattr(store.READER_POOL, "read", held)

    async def test(origin: Origin) -> None:
        await in_a_thread(subscribe)(origin.does("/long", feed(rss("long"))), "long")
        await gather(is_read.is_set)
        try:
            await in_a_thread(subscribe)(origin.does("/short", feed(rss("short"))), "short")
            await gather(lambda: titles() == ["short"])
        finally:
            goes_on.set()
        await gather(lambda: titles() == ["long", "short"])

    gathered_from(test)


def test_who_waits_for_a_feed_comes_before_a_whole_scan_of_its_host(settings: Settings) -> None:
    settings.FETCH_IN_FLIGHT = 1

    async def test() -> None:
        async with Origin() as origin:
            for path in ("/a", "/b", "/c"):
                await in_a_thread(subscribe)(origin.does(path, feed(rss(path))), path[1:])
            assert await in_a_thread(scan)() == 3
            one = await in_a_thread(subscribe)(origin.does("/wanted", feed(rss("wanted"))), "wanted")
            await want(page_work(one))
            async with fetching():
                await gather(lambda: len(titles()) == 4)
            assert origin.targets[0] == "/wanted"

    asyncio.run(test())
