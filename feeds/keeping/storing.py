"""Stores what came of a fetch: entries, the feed's row, the versions of what is served. All of it, or nothing.

A result whose fetch began before that of what is stored is not stored: whoever was held up overwrites nothing newer.
"""

import random
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from threading import Lock
from typing import Any

from django.db import connection, transaction
from django.db.models import Case, F, QuerySet, When

from resources.clocks import AHEAD
from resources.fetching.outcomes import Failed, Fetched, NotModified

from .. import encoding
from ..deciding import checking
from ..deciding.cadence import MOMENTS
from ..deciding.checking import Decision, Finding, Unreadable
from ..deciding.troubles import Trouble, trouble_of
from ..models import Entry, Feed
from ..readings import Reading, Row
from ..updating import Marks
from . import answers, durations, moves, pruning, standings, trust, versions

SEEN_MOMENTS = 10 * MOMENTS
"""So many of the last entries tell how often a feed publishes: entries that came together are one publication."""
_MARKS = ("identity", "likeness", "content", "dates")
_SAID = ("data", "size")
_WORDS = ("title", "link", "text", *_SAID)


_WRITING = Lock()


class Stored(Enum):
    """What became of a result."""

    STORED = "stored"
    OVERTAKEN = "a later fetch has been stored"
    AGAIN = "something was stored since the feed was read: compare anew"
    GONE = "there is no such feed any more"


@dataclass(frozen=True, slots=True)
class Kept:
    """What is kept of a feed's entries: their marks by their row's id, and which of them have left the document."""

    marks: Mapping[int, Marks]
    left: frozenset[int]

    @classmethod
    def of(cls, feed: Feed) -> "Kept":
        """Raises DatabaseError."""
        names = ("pk", "identity", "likeness", "content", "dates", "left_at")
        rows = list(Entry.objects.filter(feed=feed).values_list(*names))
        marks = {row[0]: Marks(*row[1:5]) for row in rows}
        return cls(marks, frozenset(row[0] for row in rows if row[5] is not None))


@dataclass(frozen=True, slots=True)
class Came:
    """What came of a fetch that began at `began_at`. `reading` is there if it was a feed that differs from before."""

    outcome: Fetched | NotModified | Failed
    finding: Finding
    began_at: datetime
    reading: Reading | None = None


def store(feed: Feed, kept: Kept, came: Came, now: datetime) -> Stored:
    """Stores what came for a feed as it was read, with its entries, before. Raises DatabaseError."""
    with turn(), transaction.atomic():
        if (missed := missed_turn(feed, came.began_at, now)) is not None:
            return missed
        if came.reading is not None:
            store_entries(feed, kept, came.reading, now, is_whole=True)
        news, changed = has_news(feed, came.reading), came.reading is not None and bool(came.reading.rows)
        reliance = trust.note(feed, came.began_at, has_news=news, has_changed=changed)
        feed.is_pushed = reliance.is_relied_on
        decision = _decide(feed, came, now, told_in_vain=reliance.told_in_vain)
        is_changed = came.reading is not None and _changes_output(feed, came.reading)
        _store_feed(feed, came, decision, now, is_changed=is_changed)
        if is_changed:
            versions.touch_combinations([feed.pk], now)
        if decision.adopts is not None:
            _move(feed, decision.adopts, decision, now)
    return Stored.STORED


def missed_turn(feed: Feed, began_at: datetime, now: datetime) -> Stored | None:
    """Locks the row; why what began then is not stored, None where it is. What began in the future says nothing."""
    stands = Feed.objects.select_for_update().filter(pk=feed.pk).values("fetch_began_at", "url").first()
    if stands is None or stands["url"] != feed.url:
        return Stored.GONE
    newer = stands["fetch_began_at"]
    if newer == feed.fetch_began_at:
        return None
    return Stored.OVERTAKEN if newer is not None and began_at <= newer <= now + AHEAD else Stored.AGAIN


def has_news(feed: Feed, reading: Reading | None) -> bool:
    """Whether there are entries that were not there before. All of a feed's first ones are none."""
    return reading is not None and feed.fetched_at is not None and any(not row.was for row in reading.rows)


@contextmanager
def turn() -> Iterator[None]:
    """SQLite lets one write at a time and has no queue: of many threads that try again and again, some never come."""
    if connection.vendor != "sqlite":
        yield
        return
    with _WRITING:
        yield


def store_entries(feed: Feed, kept: Kept, reading: Reading, now: datetime, *, is_whole: bool) -> None:
    """Stores what is new or changed; and what is not in the document any more, if that is the whole of the feed."""
    ids = {marks.identity: pk for pk, marks in kept.marks.items()}
    new = [_entry(feed, row, now) for row in reading.rows if not row.was]
    Entry.objects.bulk_create(new, ignore_conflicts=True, batch_size=200)
    _store_changed(feed, [row for row in reading.rows if row.was], ids, now)
    if is_whole:
        _mark_left(feed, kept, {ids[identity] for identity in reading.here if identity in ids}, now)
    pruning.prune_feed(feed.pk, len(kept.marks) + len(new))


def _store_changed(feed: Feed, rows: Collection[Row], ids: Mapping[str, int], now: datetime) -> None:
    """Edited entries, and such as only go by another identity: written over by their row's id."""
    groups: defaultdict[tuple[str, ...], list[Entry]] = defaultdict(list)
    for row in rows:
        groups[_overwritten(row)].append(_entry(feed, row, now, pk=ids[row.was]))
    for names, entries in groups.items():
        Entry.objects.bulk_create(
            entries, update_conflicts=True, unique_fields=["id"], update_fields=names, batch_size=200
        )


def _overwritten(row: Row) -> tuple[str, ...]:
    """What of a row that is there becomes another. One without a date keeps its place in lists."""
    if not row.is_edited:
        return (*_MARKS, *_SAID, "left_at")
    is_dated = "published" in row.data or "updated" in row.data
    return (*_MARKS, *_WORDS, "changed_at", "left_at", *(("happened_at",) if is_dated else ()))


def _entry(feed: Feed, row: Row, now: datetime, pk: int | None = None) -> Entry:
    return Entry(
        pk=pk,
        feed=feed,
        identity=row.marks.identity,
        likeness=row.marks.likeness,
        content=row.marks.content,
        dates=row.marks.dates,
        title=row.title,
        link=row.link,
        text=row.text,
        data=row.data,
        size=encoding.size(row.data),
        happened_at=row.happened_at,
        first_seen_at=now,
        changed_at=now,
    )


def _mark_left(feed: Feed, kept: Kept, here: set[int], now: datetime) -> None:
    leaving = kept.marks.keys() - here - kept.left
    back = here & kept.left
    if leaving:
        _among(feed, leaving).update(left_at=now)
    if back:
        _among(feed, back).update(left_at=None)


def _among(feed: Feed, ids: Collection[int]) -> QuerySet[Entry]:
    return Entry.objects.filter(feed=feed, pk__in=ids)


def _decide(feed: Feed, came: Came, now: datetime, *, told_in_vain: bool) -> Decision:
    published = Entry.objects.filter(feed=feed).order_by("-happened_at", "-pk").values_list("happened_at", flat=True)
    given = replace(standings.circumstances(feed, now, random.random()), told_in_vain=told_in_vain)
    return checking.decide(standings.standing_of(feed), came.finding, list(published[:SEEN_MOMENTS]), given)


def _changes_output(feed: Feed, reading: Reading) -> bool:
    """Whether anything that is served differs. When it was built says nothing."""
    before, after = ({**said, "updated": None} for said in (feed.said, reading.said))
    return bool(reading.rows) or before != after or feed.fetched_at is None


def _store_feed(feed: Feed, came: Came, decision: Decision, now: datetime, *, is_changed: bool) -> None:
    fields: dict[str, Any] = {
        **standings.fields_of(decision),
        "trouble": _trouble(came.finding),
        "checked_at": now,
        "last_seconds": came.outcome.timing.seconds,
        "expected_seconds": durations.expected_seconds(feed.url, came.outcome, came.began_at),
        "is_pushed": feed.is_pushed,
        **taken_up(came.began_at),
    }
    if not isinstance(came.finding, Failed | Unreadable):
        assert not isinstance(came.outcome, Failed)
        fields |= {"fetched_at": now, "delivered": _delivered(came.began_at), **answers.validators(feed, came.outcome)}
        fields |= answers.offered(feed, came.outcome, came.reading)
    if came.reading is not None:
        fields |= answers.said(came.reading)
    if is_changed:
        fields |= {"changed_at": now, "version": versions.raised(now)}
    Feed.objects.filter(pk=feed.pk).update(**fields)


def _move(feed: Feed, url: str, decision: Decision, now: datetime) -> None:
    """To where it has moved for good. Where another feed is there, people are told, who can make one of the two."""
    *others, why = decision.reasons
    if moves.move(feed.pk, url, why, now):
        return
    there = Feed.objects.filter(url=url).exclude(pk=feed.pk).values_list("slug", flat=True).first()
    which = f": “{there}”. Merge the two." if there else ", or nothing that can be asked."
    reason = " ".join((*others, f"It redirects for good to {url}. There is another feed{which}"))
    Feed.objects.filter(pk=feed.pk).update(reason=reason, moving=feed.moving)


def taken_up(began_at: datetime) -> dict[str, Any]:
    """What began then is stored. A flag from before it is done with."""
    flagged = Case(When(flagged_at__gt=began_at, then=F("flagged_at")), default=None)
    return {"fetch_began_at": began_at, "handed_over_at": None, "flagged_at": flagged}


def _delivered(began_at: datetime) -> Case:
    """None of the deliveries is waited for that came before the origin was asked."""
    return Case(When(pushed_at__gt=began_at, then=F("delivered")), default=0)


def _trouble(finding: Finding) -> str:
    match finding:
        case Failed():
            return trouble_of(finding).name
        case Unreadable():
            return Trouble.UNREADABLE.name
    return ""
