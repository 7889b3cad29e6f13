"""Stores filters, and judges entries by those of their feed: each once it is stored, all once the filters change.

The verdict is a field of the entry, so that pages cost no more with filters. After a change of filters the feed's row
tells how far its entries are judged: a process that dies leaves the rest to the next one.
"""

import logging
import time
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime

from django.db import Error as DatabaseError
from django.db import transaction
from django.db.models import F, Q, QuerySet

from resources import database
from resources.database import write_turn

from . import feed_rows, versions
from .changes import numbers
from .models import Category, Entry, EntryFilter, Feed
from .pages import entry_filters, entry_search, page_entries
from .pages.entry_filters import FILTERED

JUDGED_AT_ONCE = 100
"""Entries that one transaction judges anew."""
MAX_PREVIEWED = 100
_FIELDS = ("action", "words", "pattern", "field")

_log = logging.getLogger("tarry.feeds")


def replace_filters(feed_id: int, wanted: Sequence[EntryFilter]) -> None:
    """Gives a feed these checked filters in place of those that it has. Raises DatabaseError."""
    with transaction.atomic():
        stands = EntryFilter.objects.filter(feed_id=feed_id)
        if list(stands.values_list(*_FIELDS)) == [tuple(getattr(each, name) for name in _FIELDS) for each in wanted]:
            return
        stands.delete()
        EntryFilter.objects.bulk_create(wanted)
        judge_feed_anew(feed_id)


def judge_feed_anew(feed_id: int) -> None:
    """Has all entries of a feed judged: at once as far as a second goes. Call it in the transaction of the change."""
    Feed.objects.filter(pk=feed_id).update(judged_upto=0)
    transaction.on_commit(_judge_quietly)


def show_category_anew(category_id: int, now: datetime) -> None:
    """Has a category's output made anew by its filters. Call it in the transaction of the change."""
    numbers.refilter_category(category_id)
    versions.withdraw_pages(category_id, now)


def judge_stored(feed_id: int, identities: Iterable[str], now: datetime) -> None:
    """Judges new and edited entries in the transaction that stores them. Raises DatabaseError."""
    filters = list(EntryFilter.objects.filter(feed_id=feed_id))
    for some in database.split_portions(identities if filters else (), JUDGED_AT_ONCE):
        stored = Entry.objects.filter(feed_id=feed_id, identity__in=some)
        _judge(filters, list(stored.values_list("pk", flat=True)), now)


def _judge(filters: Sequence[EntryFilter], entries: Collection[int], now: datetime) -> bool:
    """Judges entries. True if another verdict is stored of any."""
    rows = Entry.objects.filter(pk__in=entries)
    versions.lock_rows(rows)  # all in one order, before some of them are written
    hidden = entry_filters.find_hidden(filters, entries)
    were = set(rows.filter(filtered_at__isnull=False).values_list("pk", flat=True))
    if gone := numbers.take_back(Entry.objects.filter(pk__in=hidden - were), FILTERED):
        Entry.objects.filter(pk__in=gone).update(filtered_at=now)
    if back := were - hidden:
        again = Entry.objects.filter(pk__in=back)
        again.update(filtered_at=None)
        numbers.give_again(again)
    return bool(gone or back)


def _judge_quietly() -> None:
    """Judges what waits. Where that fails, the next call does it."""
    try:
        judge_waiting(datetime.now(UTC))
    except DatabaseError as error:
        _log.warning("entries are not judged by new filters yet", extra={"error": str(error)})


def judge_waiting(now: datetime, seconds: float = 1.0) -> None:
    """Judges the entries of feeds whose filters have changed, for about so many seconds. Raises DatabaseError."""
    until = time.monotonic() + seconds
    waiting = Feed.objects.filter(judged_upto__isnull=False)
    for feed_id in list(waiting.order_by("pk").values_list("pk", flat=True)):
        while _judge_part(feed_id, now):
            if time.monotonic() >= until:
                return


def _judge_part(feed_id: int, now: datetime) -> bool:
    """Judges the next entries of a feed. True if there may be more."""
    with write_turn(), transaction.atomic():
        waiting = Feed.objects.select_for_update().filter(pk=feed_id, judged_upto__isnull=False)
        if (upto := waiting.values_list("judged_upto", flat=True).first()) is None:
            return False
        # The expression keeps the databases from walking through all entries by their ids.
        entries = Entry.objects.filter(feed_id=feed_id, pk__gt=upto).order_by(F("pk") + 0)
        part = list(entries.values_list("pk", flat=True)[:JUDGED_AT_ONCE])
        is_whole = len(part) < JUDGED_AT_ONCE
        Feed.objects.filter(pk=feed_id).update(judged_upto=None if is_whole else part[-1])
        if _judge(list(EntryFilter.objects.filter(feed_id=feed_id)), part, now):
            feed_rows.touch_feeds([feed_id], now, withdrawn=True)
    return not is_whole


def remove_orphans() -> None:
    """Deletes filters of feeds and categories that an earlier version deleted. Raises DatabaseError."""
    of_feed, of_category = Q(feed__isnull=False, feed__slug=None), Q(category__isnull=False, category__slug=None)
    EntryFilter.objects.filter(of_feed | of_category).delete()


def preview_filters(subject: Feed | Category) -> tuple[int, int]:
    """Returns how many of the newest entries the subject's filters hide, and of how many. Raises DatabaseError."""
    if isinstance(subject, Feed):
        newest = _newest(Entry.objects.filter(feed=subject))
        return len(entry_filters.find_hidden(list(subject.filters.all()), newest)), len(newest)
    feeds = page_entries.feeds_in_category(subject)
    newest = _newest(Entry.objects.filter(feed__in=feeds, filtered_at=None))
    search = entry_filters.narrow_search(entry_filters.EVERYTHING, subject.pk)
    return len(newest) - len(entry_search.judge_entries(search, newest)), len(newest)


def _newest(among: QuerySet[Entry]) -> list[int]:
    return list(among.order_by("-happened_at", "-pk").values_list("pk", flat=True)[:MAX_PREVIEWED])
