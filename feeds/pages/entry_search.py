"""Finds the entries of a search by the database's full-text index, the newest first, or the best.

A search that most entries match walks through them by their time, until it has enough; any other orders all its
matches. Either takes some tens of milliseconds with a million entries.
"""
# ruff: noqa: S608  the SQL is put together from our own names, and those of Django

import json
import math
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Any

from django.conf import settings
from django.db import OperationalError, connection, transaction
from django.db.models import Q, QuerySet

from resources import database

from .. import stories
from ..errors import SearchTimeoutError
from ..models import Entry, Feed
from ..search_index import INDEX_TABLE, PLACES_INDEX
from .query import Cursor
from .search_terms import SearchQuery

MAX_NAMED_FEEDS = 100
"""Feeds that the index is asked for by name. Of more, the matches are compared with their rows."""
MAX_RANKED_ENTRIES = 500
"""The newest matches, which alone are ranked: a word that all entries have would have a million."""
MAX_WALKED_ENTRIES = 5_000
ENTRIES_PER_LOOK = 250
_LOOK_COST = 40
"""Matches that are put in order in the time in which one entry is looked up in the index."""
TOO_LONG = "The search takes too long. Search for rarer words, or in fewer feeds."
_PROGRESS_STEPS = 20_000
"""SQLite's instructions between two looks at the clock: some milliseconds."""
_FIELD_WEIGHTS = "10.0, 4.0, 4.0, 1.0, 0.0"
"""Title, author, tag, text and SQLite's own words; PostgreSQL has its weights A, B and C."""


@dataclass(frozen=True, slots=True)
class EntryWindow:
    """Entries that came here since a time, beyond a place if there is one: older, or the nearest newer ones first."""

    since: datetime | None
    place: Cursor | None = None
    is_backward: bool = True

    def choose(self, among: QuerySet[Entry]) -> QuerySet[Entry]:
        """The first condition on the place is for the index, which OR would not use."""
        ordered = among.order_by("-happened_at", "-pk") if self.is_backward else among.order_by("happened_at", "pk")
        if self.since:
            ordered = ordered.filter(first_seen_at__gte=self.since)
        if self.place is None:
            return ordered
        at, number = self.place.happened_at, self.place.number
        if self.is_backward:
            return ordered.filter(Q(happened_at__lt=at) | Q(pk__lt=number), happened_at__lte=at)
        return ordered.filter(Q(happened_at__gt=at) | Q(pk__gt=number), happened_at__gte=at)

    def conditions(self, at: str, number: str) -> tuple[list[str], list[Any]]:
        """The same in SQL, of columns of these names."""
        convert = connection.ops.adapt_datetimefield_value
        found: list[str] = []
        values: list[Any] = []
        if self.since:
            came = f"came.id = {number} AND came.first_seen_at >= %s"
            found.append(f"EXISTS (SELECT 1 FROM feeds_entry AS came WHERE {came})")
            values.append(convert(self.since))
        if self.place is not None:
            found.append(f"({at}, {number}) {'<' if self.is_backward else '>'} (%s, %s)")
            values += [convert(self.place.happened_at), self.place.number]
        return found, values

    def beyond(self, number: int) -> "EntryWindow | None":
        """The part of it beyond an entry; None if that was deleted meanwhile."""
        at = Entry.objects.filter(pk=number).values_list("happened_at", flat=True).first()
        return None if at is None else replace(self, place=Cursor(at, number))

    @property
    def direction(self) -> str:
        return "DESC" if self.is_backward else "ASC"


@dataclass(frozen=True, slots=True)
class SearchScope:
    """The entries that may be found, and their feeds: by their numbers if they are few, and as a query.

    With `is_combined`, a match that an earlier one of its story precedes is not found.
    """

    among: QuerySet[Entry]
    feeds: QuerySet[Feed]
    numbers: tuple[int, ...]
    is_combined: bool = False

    @classmethod
    def of(cls, search: SearchQuery, among: QuerySet[Entry], feeds: QuerySet[Feed], *, is_all: bool) -> "SearchScope":
        """The scope of a search in these feeds. With `is_all` they are all that are visible, and never named."""
        if search.feeds or search.excluded_feeds:
            feeds = feeds.exclude(slug__in=search.excluded_feeds) if search.excluded_feeds else feeds
            feeds = feeds.filter(slug__in=search.feeds) if search.feeds else feeds
            among, is_all = among.filter(feed__in=feeds), is_all and not search.feeds
        some = () if is_all else tuple(feeds.order_by().values_list("pk", flat=True)[: MAX_NAMED_FEEDS + 1])
        if not some and not is_all:
            return cls(among.none(), feeds.none(), ())
        return cls(among, feeds, some if len(some) <= MAX_NAMED_FEEDS else ())

    @property
    def is_empty(self) -> bool:
        return self.feeds.query.is_empty()

    def condition(self, column: str) -> tuple[list[str], list[Any]]:
        """The condition in SQL that the feed is one of these; none for feeds that the index is asked for by name."""
        if self.numbers:
            return [], []
        query, values = self.feeds.order_by().values("pk").query.sql_with_params()
        return [f"{column} IN ({query})"], list(values)


def find_matches(search: SearchQuery, scope: SearchScope, window: EntryWindow, wanted: int) -> list[int]:
    """Returns the ids of so many matches, in the window's order. Raises SearchTimeoutError, DatabaseError."""
    if scope.is_empty:
        return []
    with _limit_time():
        return _find_shown(search, scope, window, wanted)


def rank_matches(search: SearchQuery, scope: SearchScope, window: EntryWindow) -> list[int]:
    """Returns the ids of the newest MAX_RANKED_ENTRIES matches, the best first. Raises as `find_matches` does."""
    if scope.is_empty:
        return []
    with _limit_time():
        found = _find_shown(search, scope, window, MAX_RANKED_ENTRIES)
        scores = _score_matches(search, found) if found else {}
    places = {number: place for place, number in enumerate(found)}
    return sorted(found, key=lambda number: (-scores.get(number, 0.0), places[number]))


def choose_matches(search: SearchQuery, numbers: Collection[int]) -> set[int]:
    """Returns the matches among a few entries. Raises as `find_matches` does."""
    scope = SearchScope.of(search, Entry.objects.filter(pk__in=numbers), Feed.objects.all(), is_all=True)
    if scope.is_empty or not numbers:
        return set()
    with _limit_time():
        return set(_walk_entries(search, scope.among.order_by("pk")))


def judge_entries(search: SearchQuery, numbers: Iterable[int]) -> set[int]:
    """Returns the matches among some entries, also filtered ones, whatever feeds the search names.

    It sets no limit of time, which would hold for the rest of the caller's transaction. Raises DatabaseError.
    """
    portions = database.split_portions(numbers, ENTRIES_PER_LOOK)
    return {number for part in portions for number in _look_up(search, part, also_filtered=True)}


def _find_shown(search: SearchQuery, scope: SearchScope, window: EntryWindow, wanted: int) -> list[int]:
    """Looks for more matches until enough of them are shown."""
    shown: list[int] = []
    asked, until = wanted, time.monotonic() + settings.FEEDS_SEARCH_SECONDS
    while True:
        found = _find_matches(search, scope, window, asked)
        left_out = _find_repeated(search, scope, found)
        shown += [number for number in found if number not in left_out]
        beyond = window.beyond(found[-1]) if len(found) == asked and len(shown) < wanted else None
        if beyond is None:
            return shown[:wanted]
        if time.monotonic() > until:
            raise SearchTimeoutError(TOO_LONG)
        window, asked = beyond, min(2 * asked, max(wanted, MAX_RANKED_ENTRIES))


def _find_repeated(search: SearchQuery, scope: SearchScope, found: Collection[int]) -> set[int]:
    """Returns those of the matches of which an earlier match of the combination is the same story."""
    of_stories = Entry.objects.filter(pk__in=found, story__isnull=False) if scope.is_combined else Entry.objects.none()
    told = {pk: story for pk, story in of_stories.order_by().values_list("pk", "story") if story is not None}
    if not (repeated := stories.find_repeated(told, scope.among)):
        return set()
    told = {pk: told[pk] for pk in repeated}
    mates = dict(scope.among.filter(stories.members_of(set(told.values()))).order_by().values_list("pk", "story"))
    by_story: defaultdict[int, list[int]] = defaultdict(list)
    for part in database.split_portions(sorted(mates), ENTRIES_PER_LOOK):
        for pk in _look_up(search, part):
            by_story[mates[pk] or pk].append(pk)
    return {pk for pk, story in told.items() if any(stories.is_earlier(other, pk, story) for other in by_story[story])}


def _find_matches(search: SearchQuery, scope: SearchScope, window: EntryWindow, wanted: int) -> list[int]:
    if _is_common(search, scope, wanted):
        found = list(islice(_walk_entries(search, window.choose(scope.among)), wanted))
        if len(found) == wanted:
            return found
    return _sort_matches(search, scope, window, wanted)


@contextmanager
def _limit_time() -> Iterator[None]:
    """Ends queries that take longer than FEEDS_SEARCH_SECONDS with SearchTimeoutError."""
    until = time.monotonic() + settings.FEEDS_SEARCH_SECONDS
    try:
        with _sqlite_limit(until) if connection.vendor == "sqlite" else _postgres_limit():
            yield
    except OperationalError as error:
        if time.monotonic() < until:
            raise
        raise SearchTimeoutError(TOO_LONG) from error


@contextmanager
def _sqlite_limit(until: float) -> Iterator[None]:
    connection.ensure_connection()
    handle = connection.connection
    handle.set_progress_handler(lambda: time.monotonic() > until, _PROGRESS_STEPS)
    try:
        yield
    finally:
        handle.set_progress_handler(None, 0)


@contextmanager
def _postgres_limit() -> Iterator[None]:
    """PostgreSQL takes words for as short as they are in a row, and would rather unpack those of all entries."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL statement_timeout = {round(settings.FEEDS_SEARCH_SECONDS * 1000)}")
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("SET LOCAL jit = off")
        yield


def _is_common(search: SearchQuery, scope: SearchScope, wanted: int) -> bool:
    """Tells whether a walk takes less than ordering all matches: by their number, and that of all entries."""
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("SELECT coalesce(max(id), 0) FROM feeds_entry")
            many = math.isqrt(cursor.fetchone()[0] * wanted * _LOOK_COST)
            matches = f"SELECT 1 FROM {INDEX_TABLE} WHERE {INDEX_TABLE} MATCH %s LIMIT {many}"
            cursor.execute(f"SELECT count(*) FROM ({matches})", [search.match(scope.numbers)])
            return bool(cursor.fetchone()[0] >= many)
        cursor.execute("SELECT reltuples FROM pg_class WHERE oid = %s::regclass", [INDEX_TABLE])
        many = math.isqrt(max(0, int(cursor.fetchone()[0])) * wanted * _LOOK_COST)
        matches = f"SELECT 1 FROM {INDEX_TABLE} WHERE words @@ %s::tsquery"
        cursor.execute(f"EXPLAIN (FORMAT JSON) {matches}", [search.loose_tsquery(scope.numbers)])
        return bool(cursor.fetchone()[0][0]["Plan"]["Plan Rows"] >= many)


def _walk_entries(search: SearchQuery, ordered: QuerySet[Entry]) -> Iterator[int]:
    """Yields the matches among the first MAX_WALKED_ENTRIES in order, as far as they are consumed."""
    numbers = ordered.values_list("pk", flat=True)[:MAX_WALKED_ENTRIES].iterator(chunk_size=ENTRIES_PER_LOOK)
    while part := list(islice(numbers, ENTRIES_PER_LOOK)):
        found = _look_up(search, part)
        yield from (number for number in part if number in found)


def _look_up(search: SearchQuery, part: Sequence[int], *, also_filtered: bool = False) -> set[int]:
    """Returns the matches among these entries."""
    if connection.vendor == "sqlite":
        span = (f"json_extract(span.value, '$[{end}]')" for end in (0, 1))
        within = f"{INDEX_TABLE} MATCH %s AND {INDEX_TABLE}.rowid BETWEEN {' AND '.join(span)}"
        look = f"SELECT {INDEX_TABLE}.rowid FROM json_each(%s) AS span CROSS JOIN {INDEX_TABLE} WHERE {within}"
        number, query, places = f"{INDEX_TABLE}.rowid", search.match(), json.dumps(_find_spans(part))
    else:
        rows = f"SELECT entry_id, words FROM {INDEX_TABLE} WHERE entry_id = ANY(%s::text::bigint[]) OFFSET 0"
        look = f"SELECT entry_id FROM ({rows}) AS looked WHERE words @@ %s::tsquery"
        number, query, places = "entry_id", search.tsquery(), f"{{{','.join(map(str, part))}}}"
    with connection.cursor() as cursor:
        cursor.execute(look if also_filtered else f"{look} AND {_unfiltered(number)}", [places, query])
        return {row[0] for row in cursor.fetchall()}.intersection(part)


def _unfiltered(number: str) -> str:
    """The condition in SQL that no filter hides the entry."""
    return f"NOT EXISTS (SELECT 1 FROM {_filtered_entries()} AND gone.id = {number})"


def _filtered_entries() -> str:
    """The filtered entries in SQL, as `gone`, by their small index: rows of entries are wide."""
    way = "INDEXED BY filtered_entries" if connection.vendor == "sqlite" else ""
    return f"feeds_entry AS gone {way} WHERE gone.filtered_at IS NOT NULL"


def _is_any_filtered(numbers: Collection[int]) -> bool:
    if not numbers:
        return False
    with connection.cursor() as cursor:
        written = ",".join(map(str, numbers))
        cursor.execute(f"SELECT EXISTS (SELECT 1 FROM {_filtered_entries()} AND gone.id IN ({written}))")
        return bool(cursor.fetchone()[0])


def _find_spans(numbers: Iterable[int]) -> list[list[int]]:
    """Returns the first and the last of numbers that are near to each other: between them SQLite reads on."""
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number - spans[-1][1] <= _LOOK_COST:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return spans


def _sort_matches(search: SearchQuery, scope: SearchScope, window: EntryWindow, wanted: int) -> list[int]:
    """Orders all matches. Where filtered ones come up, it does so again without them: most sites have none."""
    found = _sort_some(search, scope, window, wanted)
    return _sort_some(search, scope, window, wanted, is_unfiltered=True) if _is_any_filtered(found) else found


def _sort_some(
    search: SearchQuery, scope: SearchScope, window: EntryWindow, wanted: int, *, is_unfiltered: bool = False
) -> list[int]:
    if connection.vendor == "sqlite":
        source = f"SELECT place.id FROM {INDEX_TABLE} CROSS JOIN feeds_entry AS place INDEXED BY {PLACES_INDEX}"
        first, query = f"place.id = {INDEX_TABLE}.rowid AND {INDEX_TABLE} MATCH %s", search.match(scope.numbers)
        at, number, feed = "place.happened_at", "place.id", "place.feed_id"
    else:
        source, first = f"SELECT entry_id FROM {INDEX_TABLE} AS place", "words @@ %s::tsquery"
        query = search.loose_tsquery(scope.numbers)
        at, number, feed = "happened_at", "entry_id", "feed_id"
    bounds, bound_values = window.conditions(at, number)
    feeds, feed_values = scope.condition(feed)
    where = " AND ".join([first, *bounds, *feeds, *([_unfiltered(number)] if is_unfiltered else [])])
    sql = f"{source} WHERE {where} ORDER BY {at} {window.direction}, {number} {window.direction}"
    values: list[Any] = [query, *bound_values, *feed_values]
    if connection.vendor == "postgresql" and search.has_phrases:  # the index knows no positions
        words = f"SELECT words @@ %s::tsquery FROM {INDEX_TABLE} AS one WHERE one.entry_id = loose.entry_id"
        sql = f"SELECT entry_id FROM ({sql} OFFSET 0) AS loose WHERE ({words})"
        values.append(search.tsquery())
    with connection.cursor() as cursor:
        cursor.execute(f"{sql} LIMIT %s", [*values, wanted])
        return [row[0] for row in cursor.fetchall()]


def _score_matches(search: SearchQuery, found: Sequence[int]) -> dict[int, float]:
    """Returns how well each of these matches: BM25 in SQLite, cover density in PostgreSQL, by the length of texts."""
    written = ",".join(map(str, found))
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            score = f"-bm25({INDEX_TABLE}, {_FIELD_WEIGHTS})"
            which = f"rowid BETWEEN %s AND %s AND +rowid IN ({written})"
            sql = f"SELECT rowid, {score} FROM {INDEX_TABLE} WHERE {INDEX_TABLE} MATCH %s AND {which}"
            own = replace(search, within=())  # else words of filters would count
            cursor.execute(sql, [own.match(), min(found), max(found)])
        else:
            sql = f"SELECT entry_id, ts_rank_cd(words, %s::tsquery, 2) FROM {INDEX_TABLE}"
            cursor.execute(f"{sql} WHERE entry_id = ANY(%s::text::bigint[])", [search.rank_tsquery, f"{{{written}}}"])
        return dict(cursor.fetchall())
