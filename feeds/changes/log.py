"""Reads the change log of a feed or of a combination, from a cursor on.

The head is read first, and nothing after it is given: what is committed meanwhile comes with the next page. An entry
that changes again is at a later place from then on, so that it is given once, in its last form.
"""

import heapq
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from django.db.models import Exists, F, OuterRef, Q, QuerySet

from ..change_rows import ChangeLog, ChangeSpan, Membership, Removal
from ..errors import CursorExpiredError
from ..models import Entry
from .numbers import ensure_log
from .positions import ChangeCursor, ChangeScope, Kind, Position

MAX_WALKED_ENTRIES = 5_000
"""Entries of all feeds in which one page looks for those of a combination."""
REMOVAL_CHARACTERS = 150
NOT_HERE = "This cursor is of another site, or of the time before a backup was restored. Begin anew, without a cursor."
NOT_ITS_OWN = "This cursor is of another selection. Begin anew, without a cursor."
TOO_OLD = "This cursor is too old: removals after it are no longer known. Begin anew, without a cursor."


@dataclass(frozen=True, slots=True)
class PageBounds:
    """Limits of a page: its changes, and the characters of its entries."""

    changes: int
    characters: int


@dataclass(frozen=True, slots=True)
class ChangePage:
    """Changes in their order: entries as they are now, and removals. Without `has_more` they end at the log's head.

    `new` has the ids of the entries that the client cannot have yet.
    """

    changes: tuple[Entry | Removal, ...]
    cursor: ChangeCursor
    has_more: bool
    new: frozenset[int] = frozenset()


_Found = tuple[Position, int]
"""The place of a change, and its characters."""
_Order = Literal["change_number", "arrival_number"]


def start_cursor(scope: ChangeScope, *, at_head: bool = False) -> ChangeCursor:
    """Returns the cursor of a new copy; or one for clients that want nothing of what is there. Raises DatabaseError."""
    log = ensure_log()
    if at_head:
        return ChangeCursor(log.identity, scope, 0, Position.after(log.head))
    return ChangeCursor(log.identity, scope, log.head, Position())


def read_cursor(written: str, scope: ChangeScope) -> ChangeCursor:
    """Returns the cursor. Raises CursorError for a text that is none, CursorExpiredError, DatabaseError."""
    cursor = ChangeCursor.read(written)
    if cursor.scope != scope:
        raise CursorExpiredError(NOT_ITS_OWN)
    _require_known(cursor)
    return cursor


def _require_known(cursor: ChangeCursor) -> None:
    log, at = ensure_log(), cursor.position
    if log.identity != cursor.identity or cursor.number > log.head:
        raise CursorExpiredError(NOT_HERE)
    is_amid_pruned = at.kind is Kind.REMOVAL and at.number == log.floor > cursor.begun
    if cursor.number < log.floor or is_amid_pruned:
        raise CursorExpiredError(TOO_OLD)
    spans = ChangeSpan.objects.filter(first__lte=cursor.number).order_by("-first")
    if cursor.number > (spans.values_list("last", flat=True).first() or 0):
        raise CursorExpiredError(NOT_HERE)


def select_changes(cursor: ChangeCursor, bounds: PageBounds) -> ChangePage:
    """Returns the changes after the cursor. Raises CursorExpiredError and DatabaseError."""
    head = Position.after(ensure_log().head)
    horizon = head if cursor.scope.kind == "f" else _find_horizon(cursor, head)
    sources = (_removals(cursor, horizon), _arrivals(cursor, horizon), _entries(cursor, horizon))
    chosen, is_cut = _take(heapq.merge(*(list(islice(one, bounds.changes + 1)) for one in sources)), bounds)
    at = chosen[-1] if is_cut else horizon
    changes = _load(chosen)
    arrived = {place.row for place in chosen if place.kind is Kind.ARRIVAL}
    new = frozenset(row.pk for row in changes if isinstance(row, Entry) and _is_new(row, cursor, arrived))
    _require_known(cursor)  # else removals were pruned while they were read
    begun = cursor.begun if at.number < cursor.begun else 0  # from there on the position tells all
    after = ChangeCursor(cursor.identity, cursor.scope, begun, at)
    return ChangePage(changes, after, has_more=is_cut or horizon < head, new=new)


def select_arrivals(cursor: ChangeCursor, bounds: PageBounds) -> ChangePage:
    """Returns the entries that came to the site after the cursor, in that order, each once and as it is now.

    An entry that changes meanwhile keeps its place. Raises DatabaseError.
    """
    head = Position.after(ensure_log().head)
    horizon = _find_horizon(cursor, head, "arrival_number")
    chosen, is_cut = _take(_entries(cursor, horizon, "arrival_number"), bounds)
    rows = Entry.objects.filter(filtered_at=None).defer("text").in_bulk([at.row for at in chosen])
    after = ChangeCursor(cursor.identity, cursor.scope, 0, chosen[-1] if is_cut else horizon)
    entries = tuple(rows[at.row] for at in chosen if at.row in rows)
    return ChangePage(entries, after, has_more=is_cut or horizon < head, new=frozenset(rows))


def latest_number() -> int:
    """Returns the last number of the log; 0 if there is none. Raises DatabaseError."""
    return ChangeLog.objects.values_list("head", flat=True).first() or 0


def _take(found: Iterator[_Found], bounds: PageBounds) -> tuple[list[Position], bool]:
    chosen: list[Position] = []
    characters = 0
    for position, size in found:
        characters += size
        if len(chosen) == bounds.changes or (chosen and characters > bounds.characters):
            return chosen, True
        chosen.append(position)
    return chosen, False


def _load(chosen: Collection[Position]) -> tuple[Entry | Removal, ...]:
    """The rows of these places. Those that changed since, or are gone, are at later places now."""
    removals = Removal.objects.in_bulk([at.row for at in chosen if at.kind is Kind.REMOVAL])
    entries = Entry.objects.defer("text").in_bulk([at.row for at in chosen if at.kind is not Kind.REMOVAL])
    rows: list[Entry | Removal] = []
    for at in chosen:
        if at.kind is Kind.REMOVAL:
            rows += [removals[at.row]] if at.row in removals else []
        elif (entry := entries.get(at.row)) is not None and _is_there(entry, at):
            rows.append(entry)
    return tuple(rows)


def _is_new(entry: Entry, cursor: ChangeCursor, arrived: Collection[int]) -> bool:
    """True for an entry of a copy that is begun, of a feed that came, or without an earlier change."""
    number = entry.change_number or 0
    return number <= cursor.begun or entry.pk in arrived or number == entry.arrival_number


def _is_there(entry: Entry, at: Position) -> bool:
    number = entry.change_number
    if number is None or entry.filtered_at is not None:
        return False
    return number == at.number if at.kind is Kind.ENTRY else number < at.number and entry.feed_id == at.feed


def _find_horizon(cursor: ChangeCursor, head: Position, order: _Order = "change_number") -> Position:
    """The place up to which a page looks: there may be many entries of other feeds before the head."""
    later = _later_entries(Entry.objects.all(), cursor.position, head, order).order_by(order, "pk")
    last = later.values_list(order, "pk")[MAX_WALKED_ENTRIES - 1 : MAX_WALKED_ENTRIES].first()
    return head if last is None else Position(last[0] or 0, Kind.ENTRY, 0, last[1])


def _later_entries(among: QuerySet[Entry], after: Position, until: Position, order: _Order) -> QuerySet[Entry]:
    """The entries after the one place, and up to the other. The first conditions are for the index."""
    found = among.filter(**{f"{order}__gte": after.number, f"{order}__lte": until.number})
    if after.kind is Kind.END:
        found = found.filter(**{f"{order}__gt": after.number})
    elif after.kind is Kind.ENTRY:
        found = found.filter(Q(**{f"{order}__gt": after.number}) | Q(pk__gt=after.row))
    if until.kind is Kind.ENTRY:
        found = found.filter(Q(**{f"{order}__lt": until.number}) | Q(pk__lte=until.row))
    return found


def _entries(cursor: ChangeCursor, horizon: Position, order: _Order = "change_number") -> Iterator[_Found]:
    shown = Entry.objects.filter(filtered_at=None)
    among = shown.filter(feed_id=cursor.scope.row)
    if cursor.scope.kind == "c":
        members = Membership.objects.filter(category_number=cursor.scope.row, feed_number=OuterRef("feed_id"))
        among = shown.filter(Exists(members.filter(since__lte=OuterRef(order))))
    rows = _later_entries(among, cursor.position, horizon, order).order_by(order, "pk")
    for number, pk, size in rows.values_list(order, "pk", "size").iterator(chunk_size=100):
        yield Position(number or 0, Kind.ENTRY, 0, pk), size


def _removals(cursor: ChangeCursor, horizon: Position) -> Iterator[_Found]:
    """The removals that the client has to know of: those after the copy was begun."""
    at, scope = cursor.position, cursor.scope
    rows = Removal.objects.filter(number__gte=max(at.number, cursor.begun), number__lte=horizon.number)
    rows = rows.filter(number__gt=cursor.begun)
    if at.kind is Kind.REMOVAL:
        rows = rows.filter(Q(number__gt=at.number) | Q(pk__gt=at.row))
    else:
        rows = rows.filter(number__gt=at.number)
    if scope.kind == "f":
        rows = rows.filter(feed_number=scope.row, entry_number__isnull=False)
    else:
        members = Membership.objects.filter(category_number=scope.row, feed_number=OuterRef("feed_number"))
        is_of_member = Exists(members.filter(since__lt=OuterRef("number")))
        rows = rows.filter(Q(category_number=scope.row) | (Q(category_number=None) & is_of_member))
    for number, pk in rows.order_by("number", "pk").values_list("number", "pk").iterator(chunk_size=100):
        yield Position(number or 0, Kind.REMOVAL, 0, pk), REMOVAL_CHARACTERS


def _arrivals(cursor: ChangeCursor, horizon: Position) -> Iterator[_Found]:
    """The unchanged entries of feeds that came into the combination."""
    at, scope = cursor.position, cursor.scope
    if scope.kind == "f":
        return
    members = Membership.objects.filter(category_number=scope.row, since__gte=at.number, since__lte=horizon.number)
    if at.kind > Kind.ARRIVAL:
        members = members.filter(since__gt=at.number)
    elif at.kind is Kind.ARRIVAL:
        members = members.filter(Q(since__gt=at.number) | Q(feed_number__gte=at.feed))
    shown = Entry.objects.filter(filtered_at=None)
    older = shown.filter(feed_id=OuterRef("feed_number"), change_number__lt=OuterRef("since"))
    ordered = members.filter(Exists(older)).order_by("since", "feed_number").values_list("since", "feed_number")
    for since, feed in ordered.iterator(chunk_size=20):
        is_begun = at.kind is Kind.ARRIVAL and (since, feed) == (at.number, at.feed)
        entries = shown.filter(feed_id=feed, change_number__lt=since, pk__gt=at.row if is_begun else 0)
        # The expression keeps the databases from walking through all entries by their ids.
        for pk, size in entries.order_by(F("pk") + 0).values_list("pk", "size"):
            yield Position(since, Kind.ARRIVAL, feed, pk), size
