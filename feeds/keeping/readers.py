"""How many different readers fetch each feed's own output: distinct ones of the last 14 days, within a percent or so.

Which they are is not known: the front's log has a number for each, and HyperLogLogs keep no members.
"""

from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta
from typing import cast

from django.db import transaction
from django.db.models import F
from redis.exceptions import RedisError

from retry import connections
from retry.errors import StoreUnavailable

from ..models import Feed
from . import following, locking

DAYS = 14
PORTION = 2000
AT_ONCE = 500
"""Slugs in one question to the database."""
TURNS = 1440
"""Each feed that has readers is counted anew once in so many passes: those who stay away are forgotten."""

_KEPT = timedelta(days=DAYS + 1)
_READ = "feeds:were-read"


def note(names: Collection[str], now: datetime) -> None:
    """These were fetched: feeds' slugs, each with a blank and a reader's number. The same may be told again.

    Raises StoreUnavailable and DatabaseError.
    """
    named = [(slug, reader) for slug, blank, reader in (name.partition(" ") for name in names) if blank]
    ids = _ids({slug for slug, _ in named})
    pairs = [(ids[slug], reader) for slug, reader in named if slug in ids]
    if not pairs:
        return
    try:
        with connections.patient_client("state").pipeline(transaction=False) as pipeline:
            for feed_id, reader in pairs:
                pipeline.pfadd(_name(feed_id, now), reader)
                pipeline.expire(_name(feed_id, now), _KEPT)
            pipeline.sadd(_READ, *{feed_id for feed_id, _ in pairs})
            pipeline.execute()
    except RedisError as error:
        raise StoreUnavailable(f"state: {error}") from error


def count(now: datetime) -> int:
    """Counts anew, for one pass of a minute: feeds that were read, and some of those that have readers. How many.

    What a pass that is killed has not counted is counted when it is read again, or in its turn. Raises
    StoreUnavailable, DatabaseError.
    """
    try:
        return sum(_count(ids, now) for ids in (_just_read(), _in_turn(now)))
    except RedisError as error:
        raise StoreUnavailable(f"state: {error}") from error


def _ids(slugs: Collection[str]) -> dict[str, int]:
    """Those of the feeds that have these slugs now: they may be given anew."""
    wanted, found = sorted(slugs), dict[str, int]()
    for place in range(0, len(wanted), AT_ONCE):
        found.update(Feed.objects.filter(slug__in=wanted[place : place + AT_ONCE]).values_list("slug", "pk"))
    return found


def _just_read() -> list[int]:
    found = connections.patient_client("state").spop(_READ, PORTION)
    return [int(each) for each in cast("list[bytes]", found)]


def _in_turn(now: datetime) -> list[int]:
    turn = int(now.timestamp() // 60) % TURNS
    found = Feed.objects.filter(reader_count__gt=0).annotate(turn=F("pk") % TURNS).filter(turn=turn)
    return list(found.values_list("pk", flat=True))


def _count(feed_ids: Iterable[int], now: datetime) -> int:
    feeds = list(Feed.objects.filter(pk__in=feed_ids).only("reader_count"))
    with connections.patient_client("state").pipeline(transaction=False) as pipeline:
        for feed in feeds:
            pipeline.pfcount(*(_name(feed.pk, now - timedelta(days=day)) for day in range(DAYS)))
        numbers = pipeline.execute()
    changed = [(feed, number) for feed, number in zip(feeds, numbers, strict=True) if number != feed.reader_count]
    for feed, number in changed:
        feed.reader_count = number
    ids = [feed.pk for feed, _ in changed]
    with transaction.atomic():
        locking.lock(Feed.objects.filter(pk__in=ids))
        Feed.objects.bulk_update([feed for feed, _ in changed], ["reader_count"])
        following.recount(ids)
    return len(feeds)


def _name(feed_id: int, now: datetime) -> str:
    return f"feeds:readers:{feed_id}:{now.astimezone(UTC):%Y%m%d}"
