"""Rows of feeds: locked in one order, since PostgreSQL ends one of two transactions that wait for each other; flags."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from feeds import addresses, catalogue, feed_rows, followers, lifecycle
from feeds.models import Category, Feed
from feeds.scan import handover
from feeds.scan.due import DueFeed
from resources import database
from retry import stores
from tests.conftest import RedisServers
from tests.support import plain_feeds
from tests.support.plain_feeds import NOW

pytestmark = pytest.mark.django_db

CHANGES: dict[str, Callable[[list[int]], object]] = {
    "flagging": lambda ids: feed_rows.flag_feeds(ids, NOW),
    "pausing": lambda ids: lifecycle.pause_feeds(ids, NOW),
    "removing": lambda ids: lifecycle.remove_feeds(ids, NOW),
    "recounting": followers.recount_subscribers,
    "counting readers": lambda _: count_two_readers(),
    "handing over": lambda ids: handover._mark_rows({pk: lost_feed(pk) for pk in ids}, None, NOW, [], ids),
}


def count_two_readers() -> None:
    followers.note_readers({f"{slug} {reader}" for slug in ("one", "two") for reader in ("000001", "000002")}, NOW)
    followers.count_readers(NOW)


def lost_feed(pk: int) -> DueFeed:
    return DueFeed(pk, "", "", None, is_flagged=False, was_in_hand=True)


def is_locked_first(table: str, queries: CaptureQueriesContext) -> bool:
    said = [query["sql"] for query in queries.captured_queries if table in query["sql"]]
    first = next(place for place, sql in enumerate(said) if sql.startswith(("UPDATE", "DELETE")))
    return any(f'SELECT "{table}"."id"' in sql and "ORDER BY 1 ASC" in sql for sql in said[:first])


@pytest.mark.parametrize("change", CHANGES)
def test_feeds_are_locked_in_one_order(change: str, redis_servers: RedisServers) -> None:
    fields = {"handed_over_at": "2026-01-01T00:00Z", "reader_count": 1}
    ids = [plain_feeds.feed(name, **fields).pk for name in ("two", "one")]
    with CaptureQueriesContext(connection) as queries:
        CHANGES[change](ids[::-1])
    assert is_locked_first("feeds_feed", queries)


def test_categories_are_too() -> None:
    ids = [Category.objects.create(slug=name, title=name).pk for name in ("two", "one")]
    with CaptureQueriesContext(connection) as queries:
        feed_rows.touch_categories(ids, NOW)
    assert is_locked_first("feeds_category", queries)


def waiting(servers: RedisServers) -> int:
    """The number of tasks in the queue of the scan."""
    return int(servers.state.client.llen("work"))


@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif(connection.vendor == "sqlite", reason="it has one writer at a time")
def test_a_category_is_moved_below_an_earlier_one_while_a_feed_of_both_changes() -> None:
    sea = plain_feeds.feed("sea")
    earlier, later = plain_feeds.category("earlier", sea), plain_feeds.category("later", sea)
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            feed_rows.touch_categories([later.pk], NOW)
            touched = pool.submit(database.run_then_disconnect, lambda: feed_rows.touch_feeds([sea.pk], NOW))
            while not _waiting_processes():
                assert not touched.done()
            feed_rows.touch_categories([earlier.pk], NOW)
        touched.result(20)


def _waiting_processes() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
        return int(cursor.fetchone()[0])


def test_nobody_asks_for_a_scan_of_feeds_that_are_paused(redis_servers: RedisServers) -> None:
    assert feed_rows.flag_feeds([plain_feeds.feed("one", paused=True).pk], NOW) == 0
    assert waiting(redis_servers) == 0


@pytest.mark.django_db(transaction=True)
def test_a_scan_is_asked_for_when_it_can_see_what_was_flagged(redis_servers: RedisServers) -> None:
    feed = plain_feeds.feed("one")
    feed_rows.note_scan_begun()
    before = waiting(redis_servers)
    with transaction.atomic():
        feed_rows.flag_feeds([feed.pk], NOW)
        assert waiting(redis_servers) == before
    assert waiting(redis_servers) == before + 1


@pytest.mark.django_db(transaction=True)
def test_a_scan_is_asked_for_when_feeds_are_added_and_only_for_new_ones(redis_servers: RedisServers) -> None:
    for _ in range(2):
        catalogue.add_feed(addresses.read_address("https://one.example/feed"), now=NOW)
        assert waiting(redis_servers) == 1
        feed_rows.note_scan_begun()


@pytest.mark.django_db(transaction=True)
def test_a_feed_is_flagged_also_while_redis_is_away_and_nobody_waits_for_it(
    redis_servers: RedisServers, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delattr(stores, "patient_client")  # which would try for seconds
    redis_servers.state.stop()
    assert feed_rows.flag_feeds([plain_feeds.feed("one").pk], NOW) == 1
    assert Feed.objects.get().flagged_at == NOW
    assert "tarry.feeds" not in {each.name for each in caplog.records}
