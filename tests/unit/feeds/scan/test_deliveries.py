"""Deliveries of hubs are read instead of the origin's body; the origin is asked when they do not suffice."""

from datetime import UTC, datetime, timedelta

import pytest

from feeds.hub_models import Subscription
from feeds.models import Entry, Feed
from feeds.scan import deliveries
from feeds.scan.deliveries import MAX_REMEMBERED_DELIVERIES, MAX_WAITING_DELIVERIES, Delivery
from feeds.subscriptions import pings
from resources.fetch.frontier import queue
from retry import stores
from tests.conftest import RedisServers
from tests.hostile.origin import Origin
from tests.support.feed_hubs import subscribed
from tests.support.feed_scans import feed, gather, rss, scan, subscribe, titles, wait_until

pytestmark = pytest.mark.usefixtures("feed_redis")


def row() -> Feed:
    return Feed.objects.get(slug="a")


def deliver(body: bytes, at: datetime | None = None) -> datetime:
    """A hub's delivery, as its callback leaves it."""
    at = at or datetime.now(UTC)
    deliveries.keep_delivery(row().pk, Delivery(body, "application/rss+xml", at))
    pings.flag_delivered_feed(row().pk, at)
    return at


def read_once(origin: Origin, body: bytes) -> None:
    """A feed that was read, is subscribed, and has been asked for once."""
    subscribe(origin.does("/f", feed(body, 'ETag: "v1"')), "a")
    gather()
    subscribed(row(), datetime.now(UTC) - timedelta(days=1))
    origin.asked.clear()


def test_what_was_delivered_is_stored_and_the_origin_is_not_asked(origin: Origin) -> None:
    read_once(origin, rss("one", "two", day=1))
    before = row()
    at = deliver(rss("two edited", "three", day=2))
    gather()
    after = row()
    assert origin.asked == []
    assert titles() == ["one", "three", "two edited"]
    assert after.version > before.version
    assert (after.flagged_at, after.handed_over_at, after.fetch_began_at) == (None, None, at)
    assert (after.etag, after.body_digest) == ("", "")
    kept = ("validated_url", "next_check_at", "said", "fetched_at")
    assert [getattr(after, name) for name in kept] == [getattr(before, name) for name in kept]
    wait_until(lambda: not deliveries.waiting_deliveries(after.pk))  # they are dropped after they were stored
    assert not Entry.objects.filter(left_at__isnull=False).exists()
    assert Subscription.objects.get().arrived == 1


def test_several_are_read_in_their_order(origin: Origin) -> None:
    read_once(origin, rss("one", day=1))
    for day, text in ((2, "one early"), (3, "one late")):
        deliver(rss(text, day=day))
    gather()
    assert origin.asked == []
    assert titles() == ["one late"]
    assert row().delivered == 0


def test_those_that_come_at_once_and_are_kept_the_other_way_round_are_all_read(origin: Origin) -> None:
    read_once(origin, rss("one"))
    now = datetime.now(UTC)
    for text, at in (("three", now), ("two", now - timedelta(milliseconds=5))):
        deliver(rss(text), at)
    gather()
    assert origin.asked == []
    assert titles() == ["one", "three", "two"]


def test_one_that_is_kept_after_a_later_one_was_read_has_the_origin_asked(origin: Origin) -> None:
    read_once(origin, rss("one"))
    origin.does("/f", feed(rss("one", "two", "three", "four")))
    first = datetime.now(UTC)
    deliver(rss("three"))
    gather()
    assert origin.asked == []
    deliver(rss("two"), first)
    deliver(rss("four"))
    gather(lambda: "two" in titles())
    assert len(origin.asked) == 1
    assert titles() == ["four", "one", "three", "two"]


def test_one_that_was_kept_by_a_process_that_then_died_hides_no_loss(origin: Origin) -> None:
    """It is read when the hub has sent it again; a later loss has the origin asked."""

    def lose() -> None:
        deliver(rss("one", "lost"))
        stores.fast_client("cache").flushall()
        deliver(rss("one", "late"))

    read_once(origin, rss("one"))
    deliveries.keep_delivery(row().pk, Delivery(rss("two"), "", datetime.now(UTC)))
    deliver(rss("two"))
    gather()
    assert (origin.asked, row().delivered) == ([], 0)
    origin.does("/f", feed(rss("one", "two", "lost", "late")))
    lose()
    gather()
    assert len(origin.asked) == 1
    assert titles() == ["late", "lost", "one", "two"]
    assert row().delivered == 0


@pytest.mark.parametrize("body", [b"<html><p>Not a feed", b""])
def test_where_what_was_delivered_is_no_feed_the_origin_is_asked(body: bytes, origin: Origin) -> None:
    read_once(origin, rss("one"))
    origin.does("/f", feed(rss("one", "two")))
    deliver(body)
    gather()
    assert titles() == ["one", "two"]
    assert row().failures == 0


def test_what_comes_after_more_deliveries_than_are_kept_has_the_origin_asked_for_all_of_them(origin: Origin) -> None:
    read_once(origin, rss("one"))
    origin.does("/f", feed(rss("one", "lost", "late")))
    for number in range(MAX_WAITING_DELIVERIES + 1):
        deliver(rss("one", f"lost {number}"))
    deliver(rss("one", "late"))
    gather()
    assert len(origin.asked) == 1
    assert titles() == ["late", "lost", "one"]
    assert row().delivered == 0


def test_what_was_delivered_before_the_last_fetch_began_changes_nothing(origin: Origin) -> None:
    read_once(origin, rss("one"))
    long_ago = datetime.now(UTC) - timedelta(minutes=5)
    deliver(rss("one of yesterday", "two"), long_ago)
    Feed.objects.update(flagged_at=datetime.now(UTC))
    gather()
    assert titles() == ["one"]


def test_what_was_delivered_is_read_also_while_the_publisher_is_left_alone(redis_servers: RedisServers) -> None:
    one = subscribe("https://example.org/feed", "a", fetched_at=datetime.now(UTC))
    stores.run_steps(queue.block_domain("example.org", 7200 + 30))
    deliver(rss("one"))
    assert scan() == 0
    assert titles() == ["one"]
    assert "on hold for 2 h" in Feed.objects.get(pk=one.pk).reason


def test_a_feed_that_is_not_relied_on_any_more_when_its_delivery_is_read_is_polled_soon(origin: Origin) -> None:
    read_once(origin, rss("one"))
    later = datetime.now(UTC) + timedelta(days=1)
    Feed.objects.update(is_pushed=True, next_check_at=later)
    deliver(rss("one", "two"))
    gather()
    assert not row().is_pushed
    assert row().next_check_at < datetime.now(UTC) + timedelta(hours=1)


@pytest.mark.parametrize("days", [(1, 2), (None, None)], ids=["dated", "without dates of updates"])
def test_a_captured_delivery_that_comes_again_reverts_no_entry(days: tuple[int | None, ...], origin: Origin) -> None:
    before, after = (rss(text, day=day) for text, day in zip(("one", "one edited"), days, strict=True))
    read_once(origin, before)
    origin.does("/f", feed(after))
    deliver(after)
    gather()
    assert titles() == ["one edited"]
    origin.asked.clear()
    deliver(before)
    gather()
    assert titles() == ["one edited"]
    assert (len(origin.asked), row().delivered) == (1, 0)


def test_an_entry_without_a_date_is_not_taken_for_news(origin: Origin) -> None:
    read_once(origin, rss("one"))
    undated = b"<rss version='2.0'><channel><title>A feed</title><item><title>long ago</title></item></channel></rss>"
    deliver(undated)
    gather()
    assert (titles(), len(origin.asked)) == (["one"], 1)


def test_an_edit_without_a_date_waits_until_the_publisher_may_be_asked(redis_servers: RedisServers) -> None:
    subscribe("https://example.org/feed", "a", fetched_at=datetime.now(UTC))
    stores.run_steps(queue.block_domain("example.org", 7200 + 30))
    deliver(rss("one"))
    deliver(rss("one edited"))
    scan()
    assert titles() == ["one"]
    assert "on hold for 2 h: fetched after that" in row().reason


def test_what_is_delivered_for_a_paused_feed_is_not_read(origin: Origin) -> None:
    read_once(origin, rss("one"))
    deliver(rss("one", "two"))
    Feed.objects.update(paused=True)
    scan()
    assert titles() == ["one"]


@pytest.mark.usefixtures("redis_servers")
def test_a_delivery_is_kept_as_it_came_and_known_again() -> None:
    delivery = Delivery(b"a\n\x00\xff\nb", "application/atom+xml; charset=é", datetime.now(UTC))
    deliveries.keep_delivery(7, delivery)
    assert deliveries.waiting_deliveries(7) == [delivery]
    assert not deliveries.is_known_delivery(1, delivery)
    deliveries.remember_delivery(1, delivery)
    assert deliveries.is_known_delivery(1, delivery)
    assert not deliveries.is_known_delivery(2, delivery)
    assert not deliveries.is_known_delivery(1, Delivery(b"another", "", delivery.received_at))


@pytest.mark.usefixtures("redis_servers")
def test_the_last_ones_are_known_again_and_no_more_of_them_than_there_is_room_for() -> None:
    now = datetime.now(UTC)
    sent = [
        Delivery(b"%d" % number, "", now + timedelta(seconds=number)) for number in range(MAX_REMEMBERED_DELIVERIES + 2)
    ]
    for one in sent:
        deliveries.remember_delivery(1, one)
    assert [deliveries.is_known_delivery(1, one) for one in sent] == [False] * 2 + [True] * MAX_REMEMBERED_DELIVERIES
