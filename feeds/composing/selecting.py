"""Which entries stand on a page. Keyset pages: how far down a page is does not matter."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from django.db.models import Q, QuerySet

from feeds.keeping import categories
from feeds.models import Category, Entry, Feed

from .asking import ALL, Asked
from .places import Place

SEARCHED_ENTRIES = 10_000
"""So many are searched for a page. A page may be short for that; the next one goes on from there."""
MOST_CHARACTERS = 5_000_000
"""Of all that a page's entries say: it ends before its limit where that is much."""
SEARCHED_AT_ONCE = 500
"""Entries in one question, which names them: PostgreSQL would rather search the texts of all that there are."""
_CHUNK = 20


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of the work for a page: how many entries are searched, how much they may say."""

    searched_entries: int
    characters: int


@dataclass(frozen=True, slots=True)
class Selection:
    """Entries, the newest first, without what is searched of them; where older ones follow, and newer ones precede."""

    entries: tuple[Entry, ...]
    older: Place | None
    newer: Place | None


def select(asked: Asked, subject: Feed | Category, bounds: Bounds | None = None) -> Selection:
    """The page's entries, within SEARCHED_ENTRIES and MOST_CHARACTERS if nothing is said. Raises DatabaseError."""
    bounds = bounds or Bounds(SEARCHED_ENTRIES, MOST_CHARACTERS)
    among = _among(asked, subject)
    if asked.after is not None:
        found, is_cut = _up_to(asked, _newer(among, asked.after), bounds)
        if is_cut:
            return Selection(tuple(found[::-1]), _place(found[0]), newer=_place(found[-1]))
    if asked.before is not None:
        among = _older(among, asked.before)
    ordered = among.order_by("-happened_at", "-pk")
    found, is_cut = _up_to(asked, ordered, bounds)
    older = _place(found[-1]) if is_cut else _end_of_search(asked, ordered, bounds)
    return Selection(tuple(found), older, newer=_place(found[0]) if found and asked.before else None)


def feeds_of(category: Category) -> QuerySet[Feed]:
    """Those of which entries stand in a combination."""
    playing = Feed.objects.filter(paused=False, is_hidden=False)
    if category.slug == ALL:
        return playing
    members = Feed.categories.through.objects.filter(category__in=categories.with_those_below(category.slug))
    return playing.filter(pk__in=members.values("feed"))


def _among(asked: Asked, subject: Feed | Category) -> QuerySet[Entry]:
    if isinstance(subject, Feed):
        entries = Entry.objects.filter(feed=subject)
    elif subject.slug == ALL:
        entries = Entry.objects.filter(feed__paused=False, feed__is_hidden=False)
    else:
        entries = Entry.objects.filter(feed__in=feeds_of(subject))
    return entries.filter(happened_at__gte=asked.since) if asked.since else entries


def _matching(asked: Asked, ordered: QuerySet[Entry], bounds: Bounds) -> Iterator[tuple[int, int]]:
    """Numbers and sizes of those with all the words, in the same order. Searches no further than it is gone through."""
    if not asked.words:
        yield from ordered.values_list("pk", "size")[: asked.limit + 1].iterator(chunk_size=_CHUNK)
        return
    searched = ordered.values_list("pk", flat=True)[: bounds.searched_entries].iterator(chunk_size=SEARCHED_AT_ONCE)
    while part := list(islice(searched, SEARCHED_AT_ONCE)):
        found = Entry.objects.filter(pk__in=part).order_by()
        for word in asked.words.split():
            found = found.filter(text__contains=word)
        sizes = dict(found.values_list("pk", "size"))
        yield from ((pk, sizes[pk]) for pk in part if pk in sizes)


def _older(among: QuerySet[Entry], place: Place) -> QuerySet[Entry]:
    """Those after the place. The first condition is for the index, which OR would not use."""
    later = Q(happened_at__lt=place.happened_at) | Q(pk__lt=place.number)
    return among.filter(later, happened_at__lte=place.happened_at)


def _newer(among: QuerySet[Entry], place: Place) -> QuerySet[Entry]:
    """Those before the place, the nearest first."""
    sooner = Q(happened_at__gt=place.happened_at) | Q(pk__gt=place.number)
    return among.filter(sooner, happened_at__gte=place.happened_at).order_by("happened_at", "pk")


def _up_to(asked: Asked, ordered: QuerySet[Entry], bounds: Bounds) -> tuple[list[Entry], bool]:
    """As many as a page has, and whether there are more."""
    chosen, is_cut = _within(asked.limit, _matching(asked, ordered, bounds), bounds)
    rows = Entry.objects.defer("text").in_bulk(chosen)
    found = [rows[pk] for pk in chosen if pk in rows]  # some may be gone since
    return found, is_cut and bool(found)


def _within(limit: int, entries: Iterable[tuple[int, int]], bounds: Bounds) -> tuple[list[int], bool]:
    """Their numbers. No entry is read for that."""
    chosen: list[int] = []
    characters = 0
    for pk, size in entries:
        characters += size
        if len(chosen) == limit or (chosen and characters > bounds.characters):
            return chosen, True
        chosen.append(pk)
    return chosen, False


def _end_of_search(asked: Asked, ordered: QuerySet[Entry], bounds: Bounds) -> Place | None:
    """Where the search stopped, None when it came to the end."""
    if not asked.words:
        return None
    last = ordered.only("happened_at")[bounds.searched_entries - 1 : bounds.searched_entries].first()
    return _place(last) if last else None


def _place(entry: Entry) -> Place:
    return Place(entry.happened_at, entry.pk)
