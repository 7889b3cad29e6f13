"""Counts each feed's subscribers: users that follow it, readers of its own output and of combinations with it.

Readers are distinct ones of the last 14 days, to within a percent or so. They stay unknown: nginx' log has a number
for each, and HyperLogLogs keep no members. Readers of a combination are stored with its category alone, however many
feeds it gives. Strangers can be any number of readers: those of a day take a 256th of `state` at the most.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

from django.conf import settings
from django.db import transaction
from django.db.models import Case, Count, ExpressionWrapper, F, IntegerField, OuterRef, QuerySet, Subquery, Sum, When
from django.db.models.functions import Coalesce

from resources import database
from retry import scripts, stores
from retry.conf import partition_of, partition_root
from retry.scripts import ScriptCall

from . import categories, versions
from .models import ALL_SLUG, Category, Feed, Follow

COUNT_PASSES = 1440
"""Minute passes in which the followers and readers of each feed are counted once.

Users may be deleted, and readers that stay away are forgotten.
"""
READER_DAYS = 14
MAX_COUNTED_PER_PASS = 2000
SLUGS_PER_QUERY = 500

READERS_PER_CALL = 500
DAY_SHARE_OF_STATE = 1 / 256

READERS_KEPT = timedelta(days=READER_DAYS + 1)


@dataclass(frozen=True, slots=True)
class _ReadRows:
    """Rows with readers: the beginning of the keys of these, and the key of the rows that were read lately."""

    model: type[Feed] | type[Category]
    readers_key: str
    read_key: str


_FEEDS = _ReadRows(Feed, "readers", "feeds:were-read")
_COMBINATIONS = _ReadRows(Category, "combination-readers", "feeds:combinations-were-read")

scripts.register_scripts(Path(__file__).parent / "lua", "feeds")


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


def with_subscribers(feeds: QuerySet[Feed]) -> QuerySet[Any]:
    """Returns the feeds with their `subscribers`: followers, readers, and readers of combinations that give the feed.

    Does not add up distinct clients: a client counts in its own place for the feed, for each of its categories (with
    the categories above that one), and for all feeds.
    """
    links: QuerySet[Any] = Feed.categories.through._default_manager.filter(feed_id=OuterRef("pk")).order_by()
    of_categories = links.values("feed_id").annotate(number=Sum("category__reader_count")).values("number")
    of_all = Category.objects.filter(slug=ALL_SLUG).values("reader_count")[:1]
    categories_readers, all_readers = (
        Coalesce(Subquery(rows, output_field=IntegerField()), 0) for rows in (of_categories, of_all)
    )
    gives = When(paused=False, is_hidden=False, then=categories_readers + all_readers)
    combined = Case(gives, default=0, output_field=IntegerField())
    return feeds.annotate(subscribers=ExpressionWrapper(F("subscriber_count") + combined, IntegerField()))


def count_subscribers(feed_ids: Collection[int]) -> dict[int, int]:
    """Returns the numbers of subscribers by the ids of the feeds, in one query."""
    return dict(with_subscribers(Feed.objects.filter(pk__in=feed_ids)).order_by().values_list("pk", "subscribers"))


def recount_subscribers(feed_ids: Collection[int]) -> None:
    """Counts the subscribers of these feeds without those of combinations, and with the readers as last counted."""
    of_feed = Follow.objects.filter(feed_id=OuterRef("pk")).order_by().values("feed_id")
    followers = Subquery(of_feed.annotate(number=Count("pk")).values("number"), output_field=IntegerField())
    with transaction.atomic():
        locked = versions.lock_rows(Feed.objects.filter(pk__in=feed_ids))
        Feed.objects.filter(pk__in=locked).update(subscriber_count=F("reader_count") + Coalesce(followers, 0))


def recount_subscribers_in_turn(now: datetime) -> int:
    """Counts the same for the feeds whose turn it is in this minute. Returns their number. Raises DatabaseError."""
    ids = _ids_in_turn(Feed.objects.filter(subscriber_count__gt=0), now)
    recount_subscribers(ids)
    return len(ids)


def _ids_in_turn(rows: QuerySet[Any], now: datetime) -> list[int]:
    turn = int(now.timestamp() // 60) % COUNT_PASSES
    found = rows.annotate(turn=F("pk") % COUNT_PASSES).filter(turn=turn)
    return list(found.order_by().values_list("pk", flat=True))


def note_readers(names: Collection[str], now: datetime) -> None:
    """Notes fetches of feeds: each name is a slug, a blank and a reader's number. Noting the same again does no harm.

    Raises StoreUnavailable and DatabaseError.
    """
    _note_readers_of(_FEEDS, names, now)


def note_combination_readers(names: Collection[str], now: datetime) -> None:
    """Notes fetches of combinations, each by the slug of its category, in the same way."""
    _note_readers_of(_COMBINATIONS, names, now)


def count_readers(now: datetime) -> int:
    """Counts the readers of rows that were read lately, and of some others, in one minute's pass. Returns the number.

    Rows are feeds, and categories with their combinations. Those that a killed pass left out are counted when they are
    read again, or in their turn. Raises StoreUnavailable, DatabaseError.
    """
    with stores.translate_errors("state"):
        return _count_readers_of_feeds(now) + _count_readers_of_combinations(now)


def _note_readers_of(rows: _ReadRows, names: Collection[str], now: datetime) -> None:
    named = [(slug, reader) for slug, blank, reader in (name.partition(" ") for name in names) if blank]
    ids = _ids_by_slug(rows, {slug for slug, _ in named})
    pairs = [(ids[slug], reader) for slug, reader in named if slug in ids]
    if not pairs:
        return
    for some in database.split_portions(pairs, READERS_PER_CALL):
        stores.execute_patiently(_note_readers_call(rows, some, now))
    with stores.translate_errors("state"):
        stores.patient_client("state").sadd(rows.read_key, *{pk for pk, _ in pairs})


def _note_readers_call(rows: _ReadRows, pairs: Sequence[tuple[int, str]], now: datetime) -> ScriptCall:
    keys = [_day_key("reader-bytes", now), *(_readers_key(rows, pk, now) for pk, _ in pairs)]
    most_bytes = int(settings.STATE_MAX_BYTES * DAY_SHARE_OF_STATE)
    readers = (reader for _, reader in pairs)
    return ScriptCall("state", "feeds.note_readers", keys, (int(READERS_KEPT.total_seconds()), most_bytes, *readers))


def _ids_by_slug(rows: _ReadRows, slugs: Collection[str]) -> dict[str, int]:
    """Returns the rows that have these slugs now: a slug may be given to another feed."""
    wanted, found = sorted(slugs), dict[str, int]()
    for place in range(0, len(wanted), SLUGS_PER_QUERY):
        part = rows.model._default_manager.filter(slug__in=wanted[place : place + SLUGS_PER_QUERY])
        found.update(part.values_list("slug", "pk"))
    return found


def _count_readers_of_feeds(now: datetime) -> int:
    ids = {*_ids_just_read(_FEEDS), *_ids_in_turn(Feed.objects.filter(reader_count__gt=0), now)}
    feeds = list(Feed.objects.filter(pk__in=ids).only("reader_count"))
    changed = _with_new_counts(feeds, {feed.pk: _recent_keys(_FEEDS, [feed.pk], now) for feed in feeds})
    with transaction.atomic():
        versions.lock_rows(Feed.objects.filter(pk__in=changed))
        Feed.objects.bulk_update(changed.values(), ["reader_count"])
        recount_subscribers(changed)
    return len(feeds)


def _count_readers_of_combinations(now: datetime) -> int:
    """A reader of a category gets the entries of those below it too, and counts there once."""
    read = set(_ids_just_read(_COMBINATIONS))
    in_turn = set(_ids_in_turn(Category.objects.filter(reader_count__gt=0), now))
    if not read and not in_turn:
        return 0
    above = categories.ids_with_ancestors()
    keys = {pk: _recent_keys(_COMBINATIONS, ids, now) for pk, ids in above.items() if pk in in_turn or read & ids}
    rows = list(Category.objects.filter(pk__in=keys).only("reader_count"))
    changed = _with_new_counts(rows, keys)
    with transaction.atomic():
        versions.lock_rows(Category.objects.filter(pk__in=changed))
        Category.objects.bulk_update(changed.values(), ["reader_count"])
    return len(rows)


def _ids_just_read(rows: _ReadRows) -> list[int]:
    found = stores.patient_client("state").spop(rows.read_key, MAX_COUNTED_PER_PASS)
    return [int(each) for each in cast("list[bytes]", found)]


def _with_new_counts(rows: Collection[Any], keys: Mapping[int, Collection[str]]) -> dict[int, Any]:
    """Gives the rows their numbers of readers, by the keys of each row. Returns the changed ones. Stores nothing."""
    calls = [ScriptCall("state", "feeds.count_readers", list(keys[row.pk])) for row in rows]
    numbers = cast("list[int]", stores.execute_all_patiently("state", calls))
    changed = {row.pk: row for row, number in zip(rows, numbers, strict=True) if number != row.reader_count}
    for row, number in zip(rows, numbers, strict=True):
        row.reader_count = number
    return changed


def _recent_keys(rows: _ReadRows, ids: Iterable[int], now: datetime) -> list[str]:
    return [_readers_key(rows, pk, now - timedelta(days=day)) for pk in ids for day in range(READER_DAYS)]


def _readers_key(rows: _ReadRows, pk: int, now: datetime) -> str:
    return _day_key(f"{rows.readers_key}:{pk}", now)


def _day_key(name: str, now: datetime) -> str:
    return f"{partition_root('feeds', partition_of('readers'))}:{name}:{now.astimezone(UTC):%Y%m%d}"
