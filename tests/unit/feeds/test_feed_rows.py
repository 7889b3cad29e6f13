"""Whoever changes several rows locks them in one order first: PostgreSQL ends one of two that wait for each other."""

from collections.abc import Callable

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from feeds.gathering import handing
from feeds.keeping import flagging, following, pausing, readers, versions
from feeds.models import Category
from tests.conftest import RedisServers
from tests.feeds.keeping import rows
from tests.feeds.keeping.rows import NOW

pytestmark = pytest.mark.django_db

CHANGES: dict[str, Callable[[list[int]], object]] = {
    "flagging": lambda ids: flagging.flag(ids, NOW),
    "pausing": lambda ids: pausing.pause(ids, NOW),
    "removing": lambda ids: pausing.remove(ids, NOW),
    "recounting": following.recount,
    "handing over": lambda ids: handing._mark({}, set(ids), None, NOW),
}


def is_locked_first(table: str, queries: CaptureQueriesContext) -> bool:
    said = [query["sql"] for query in queries.captured_queries if table in query["sql"]]
    first = next(place for place, sql in enumerate(said) if sql.startswith(("UPDATE", "DELETE")))
    return any(f'SELECT "{table}"."id"' in sql and "ORDER BY 1 ASC" in sql for sql in said[:first])


@pytest.mark.parametrize("change", CHANGES)
def test_feeds_are_locked_in_one_order(change: str, redis_servers: RedisServers) -> None:
    ids = [rows.feed(name, handed_over_at="2026-01-01T00:00Z").pk for name in ("two", "one")]
    with CaptureQueriesContext(connection) as queries:
        CHANGES[change](ids[::-1])
    assert is_locked_first("feeds_feed", queries)


def test_feeds_whose_readers_are_counted_are_too(redis_servers: RedisServers) -> None:
    ids = [rows.feed(name, reader_count=1).pk for name in ("two", "one")]
    with CaptureQueriesContext(connection) as queries:
        readers._count(ids, NOW)
    assert is_locked_first("feeds_feed", queries)


def test_categories_are_too() -> None:
    ids = [Category.objects.create(slug=name, title=name).pk for name in ("two", "one")]
    with CaptureQueriesContext(connection) as queries:
        versions.touch_categories(ids, NOW)
    assert is_locked_first("feeds_category", queries)
