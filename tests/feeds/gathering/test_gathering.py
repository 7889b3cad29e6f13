"""Feeds on their way from the origin to stored entries, by a real fetcher and real Redis servers."""

from datetime import UTC, datetime

import pytest

from feeds.deciding.standing import State
from feeds.models import Category, Entry, Feed
from tests.feeds.gathered import conditional, due_again, feed, gather, gathered_from, rss, subscribe
from tests.hostile.origin import Origin, answer
from tests.resources.mirroring.gathering.mirrored import in_a_thread

pytestmark = pytest.mark.usefixtures("gathering")


def row(slug: str = "a") -> Feed:
    return Feed.objects.get(slug=slug)


def titles() -> list[str]:
    return list(Entry.objects.order_by("title").values_list("title", flat=True))


def test_a_new_feed_is_fetched_at_the_next_scan_and_told_when_again_and_why() -> None:
    async def test(origin: Origin) -> None:
        await in_a_thread(subscribe)(origin.does("/f", feed(rss("one", "two"))), "a")
        await gather()

    gathered_from(test)
    found = row()
    assert titles() == ["one", "two"]
    assert found.own_title == "A feed"
    assert found.state == State.ACTIVE.value
    assert found.next_check_at > datetime.now(UTC)
    assert "It publishes about every 1 h" in found.reason or "Nothing new for" in found.reason
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
        page = b"<!doctype html><link rel=alternate type=application/rss+xml href=/feed.xml title=News>"
        await in_a_thread(subscribe)(origin.does("/", answer(body=page)), "a")
        await gather()

    gathered_from(test)
    found = row()
    assert (found.state, found.trouble, found.failures) == ("failing", "UNREADABLE", 1)
    assert "This is a web page, not a feed." in found.reason
    assert [one["title"] for one in found.discovered] == ["News"]


@pytest.mark.parametrize(
    ("status", "trouble"), [("404 Not Found", "MISSING"), ("410 Gone", "GONE"), ("500 Oh", "SERVER")]
)
def test_a_failure_is_counted_by_its_kind(status: str, trouble: str) -> None:
    async def test(origin: Origin) -> None:
        await in_a_thread(subscribe)(origin.does("/f", answer(status)), "a")
        await gather()

    gathered_from(test)
    assert (row().trouble, row().failures, row().handed_over_at) == (trouble, 1, None)
