"""Counts each feed's subscribers: users that follow it, and readers of the feed's own output.

Readers are distinct ones of the last 14 days, to within a percent or so. They stay unknown: nginx' log has a number
for each, and HyperLogLogs keep no members.
"""

from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta
from typing import cast

from django.db import transaction
from django.db.models import Count, F, IntegerField, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce

from retry import stores

from . import feed_rows
from .models import Feed, Follow

COUNT_PASSES = 1440
"""Minute passes in which the followers and readers of each feed are counted once.

Users may be deleted, and readers that stay away are forgotten.
"""
READER_DAYS = 14
MAX_FEEDS_COUNTED_PER_PASS = 2000
SLUGS_PER_QUERY = 500

_READERS_KEPT = timedelta(days=READER_DAYS + 1)
_FEEDS_READ_KEY = "feeds:were-read"


def follow_feeds(user_id: int, feed_ids: Collection[int], now: datetime) -> int:
    """Lets the user follow these feeds. Returns how many are newly followed; deleted feeds are left out."""
    with transaction.atomic():
        there = set(Feed.objects.filter(pk__in=feed_ids).values_list("pk", flat=True))
        before = set(Follow.objects.filter(user_id=user_id, feed_id__in=there).values_list("feed_id", flat=True))
        rows = [Follow(user_id=user_id, feed_id=feed_id, since=now) for feed_id in sorted(there - before)]
        Follow.objects.bulk_create(rows, ignore_conflicts=True)  # another request may do the same at the same time
        recount_subscribers([row.feed_id for row in rows])
    return len(rows)


def unfollow_feeds(user_id: int, feed_ids: Collection[int]) -> int:
    """Ends the user's following of these feeds. Returns how many were followed."""
    with transaction.atomic():
        number, _ = Follow.objects.filter(user_id=user_id, feed_id__in=feed_ids).delete()
        recount_subscribers(feed_ids)
    return number


def recount_subscribers(feed_ids: Collection[int]) -> None:
    """Counts the subscribers of these feeds, with the readers as last counted."""
    of_feed = Follow.objects.filter(feed_id=OuterRef("pk")).order_by().values("feed_id")
    followers = Subquery(of_feed.annotate(number=Count("pk")).values("number"), output_field=IntegerField())
    with transaction.atomic():
        locked = feed_rows.lock_rows(Feed.objects.filter(pk__in=feed_ids))
        Feed.objects.filter(pk__in=locked).update(subscriber_count=F("reader_count") + Coalesce(followers, 0))


def recount_subscribers_in_turn(now: datetime) -> int:
    """Counts the same for the feeds whose turn it is in this minute. Returns their number. Raises DatabaseError."""
    ids = _ids_in_turn(Feed.objects.filter(subscriber_count__gt=0), now)
    recount_subscribers(ids)
    return len(ids)


def _ids_in_turn(feeds: QuerySet[Feed], now: datetime) -> list[int]:
    turn = int(now.timestamp() // 60) % COUNT_PASSES
    rows = feeds.annotate(turn=F("pk") % COUNT_PASSES).filter(turn=turn)
    return list(rows.order_by().values_list("pk", flat=True))


def note_readers(names: Collection[str], now: datetime) -> None:
    """Notes fetches of feeds: each name is a slug, a blank and a reader's number. Noting the same again does no harm.

    Raises StoreUnavailable and DatabaseError.
    """
    named = [(slug, reader) for slug, blank, reader in (name.partition(" ") for name in names) if blank]
    ids = _feed_ids_by_slug({slug for slug, _ in named})
    pairs = [(ids[slug], reader) for slug, reader in named if slug in ids]
    if not pairs:
        return
    with stores.translate_errors("state"), stores.patient_client("state").pipeline(transaction=False) as pipeline:
        for feed_id, reader in pairs:
            pipeline.pfadd(_readers_key(feed_id, now), reader)
            pipeline.expire(_readers_key(feed_id, now), _READERS_KEPT)
        pipeline.sadd(_FEEDS_READ_KEY, *{feed_id for feed_id, _ in pairs})
        pipeline.execute()


def count_readers(now: datetime) -> int:
    """Counts the readers of feeds that were read lately, and of some others, in one minute's pass. Returns the number.

    Feeds that a killed pass left out are counted when they are read again, or in their turn. Raises StoreUnavailable,
    DatabaseError.
    """
    with stores.translate_errors("state"):
        just_read = _count_readers_of(_feeds_just_read(), now)
        return just_read + _count_readers_of(_ids_in_turn(Feed.objects.filter(reader_count__gt=0), now), now)


def _feed_ids_by_slug(slugs: Collection[str]) -> dict[str, int]:
    """Returns the feeds that have these slugs now: a slug may be given to another feed."""
    wanted, found = sorted(slugs), dict[str, int]()
    for place in range(0, len(wanted), SLUGS_PER_QUERY):
        found.update(Feed.objects.filter(slug__in=wanted[place : place + SLUGS_PER_QUERY]).values_list("slug", "pk"))
    return found


def _feeds_just_read() -> list[int]:
    found = stores.patient_client("state").spop(_FEEDS_READ_KEY, MAX_FEEDS_COUNTED_PER_PASS)
    return [int(each) for each in cast("list[bytes]", found)]


def _count_readers_of(feed_ids: Iterable[int], now: datetime) -> int:
    feeds = list(Feed.objects.filter(pk__in=feed_ids).only("reader_count"))
    with stores.patient_client("state").pipeline(transaction=False) as pipeline:
        for feed in feeds:
            pipeline.pfcount(*(_readers_key(feed.pk, now - timedelta(days=day)) for day in range(READER_DAYS)))
        numbers = pipeline.execute()
    changed = [(feed, number) for feed, number in zip(feeds, numbers, strict=True) if number != feed.reader_count]
    for feed, number in changed:
        feed.reader_count = number
    ids = [feed.pk for feed, _ in changed]
    with transaction.atomic():
        feed_rows.lock_rows(Feed.objects.filter(pk__in=ids))
        Feed.objects.bulk_update([feed for feed, _ in changed], ["reader_count"])
        recount_subscribers(ids)
    return len(feeds)


def _readers_key(feed_id: int, now: datetime) -> str:
    return f"feeds:readers:{feed_id}:{now.astimezone(UTC):%Y%m%d}"
