"""Finds the entries of different feeds that are one story: by their id, their link, or nearly the same text.

Candidates share a mark (`story_marks`), or the identity if they have an id that no other publisher gives. The first of
a story is the one that was found first. An entry keeps the story that it has; without one it is looked at again with
each change. Hidden feeds take no part.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, Min, Q, QuerySet

from resources.database import split_portions, write_turn

from . import story_marks, words
from .models import Entry, StoryMark
from .story_marks import StoryText, Way

STORY_TIME = timedelta(days=30)
"""Marks are kept for so long: later entries are not compared with older ones, but for their ids."""
MAX_SHARERS = 200
"""Entries with one mark. A mark that more of them have says nothing."""
MAX_COMPARED = 5
"""Texts that one entry's is compared with."""
NUMBERS_PER_QUERY = 500
MARKS_PER_DELETION = 5_000


def store_marks(feed_id: int, new: Mapping[str, Sequence[int]], changed: Mapping[int, Sequence[int]]) -> None:
    """Stores the marks of a feed's new entries, by their identities, and of changed ones, by their ids.

    Call it once these are stored, in the same transaction.
    """
    marks = dict(changed)
    for some in split_portions((identity for identity, found in new.items() if found), NUMBERS_PER_QUERY):
        stored = Entry.objects.filter(feed=feed_id, identity__in=some).order_by()
        marks.update((pk, new[identity]) for pk, identity in stored.values_list("pk", "identity"))
    for some_ids in split_portions(changed, NUMBERS_PER_QUERY):
        StoryMark.objects.filter(entry__in=some_ids).delete()
    rows = [StoryMark(entry_id=pk, mark=mark) for pk, found in marks.items() for mark in dict.fromkeys(found)]
    StoryMark.objects.bulk_create(rows, batch_size=NUMBERS_PER_QUERY)


def prune_marks(before: datetime, seconds: float) -> int:
    """Deletes marks of entries that came before then, for about so many seconds. Returns how many.

    Marks are in the order in which they were stored: it looks no further than to the first that stays. Raises
    DatabaseError.
    """
    until, removed = time.monotonic() + seconds, 0
    while True:
        oldest = StoryMark.objects.order_by("pk")[:MARKS_PER_DELETION].values_list("pk", "entry_id")
        rows = list(oldest)
        entries = {entry for _, entry in rows}
        recent = Entry.objects.filter(pk__in=entries, first_seen_at__gte=before)
        stay = set(recent.values_list("pk", flat=True))
        last = next((place for place, (_, entry) in enumerate(rows) if entry in stay), len(rows))
        if last:
            with write_turn():
                removed += StoryMark.objects.filter(pk__lte=rows[last - 1][0]).delete()[0]
        if last < MARKS_PER_DELETION or time.monotonic() >= until:
            return removed


def members_of(stories: Collection[int]) -> Q:
    """The condition that an entry is in one of these stories."""
    return Q(pk__in=stories) | Q(story__in=stories)


def find_repeated(told: Mapping[int, int | None], among: QuerySet[Entry]) -> set[int]:
    """Returns those of these entries, given with their stories, of which `among` has an earlier one.

    Asked for a page's entries it costs some milliseconds, however large the table; as a condition of the page's own
    query it would be looked at for each entry before they are in order.
    """
    numbers = {story for story in told.values() if story is not None}
    if not numbers:
        return set()
    first = set(among.filter(pk__in=numbers).order_by().values_list("pk", flat=True))
    later = among.filter(story__in=numbers - first).order_by().values("story").annotate(least=Min("pk"))
    least = dict(later.values_list("story", "least"))
    return {pk for pk, story in told.items() if story in first or pk > least.get(story, pk)}


def is_earlier(one: int, other: int, story: int) -> bool:
    """Tells whether one of two entries of a story is the earlier: its first one, else the one with the lower id."""
    return other not in {one, story} and (one == story or one < other)


@dataclass(slots=True)
class _Candidate:
    """An entry that shares a mark. `host` is that of its link, or of its feed.

    It `is_known` once it was looked at: it has its story, or none.
    """

    pk: int
    feed_id: int
    story: int | None
    identity: str
    host: str
    is_known: bool

    @property
    def story_number(self) -> int:
        return self.story or self.pk


_Sharers = Mapping[int, Mapping[Way, Sequence[int]]]
"""By the id of an entry and the way, those that share its marks: the best first."""


def find_stories(numbers: Iterable[int]) -> dict[int, int]:
    """Returns the stories that are found for these entries, by their ids. Does not store them.

    One process at a time may do both. Entries without marks, of before an upgrade, cost next to nothing.
    """
    marks = _load_marks(numbers)
    if not marks:
        return {}
    rows = _load_candidates(marks)
    named = [row for pk, row in rows.items() if Way.ID in map(story_marks.way_of, marks[pk])]
    by_identity = _share_identities(row.identity for row in named)
    by_mark = _share_marks({mark for found in marks.values() for mark in found})
    others = {pk for some in (by_identity, by_mark) for pks in some.values() for pk in pks}
    rows |= _load_candidates(others - rows.keys())
    sharers = _group_sharers(marks, rows, by_identity, by_mark)
    return _choose_stories({pk: rows[pk] for pk in others & rows.keys()}, sharers)


def _load_marks(numbers: Iterable[int]) -> dict[int, list[int]]:
    """The marks of entries that have some, in the order of the entries."""
    found: defaultdict[int, list[int]] = defaultdict(list)
    for some in split_portions(sorted(numbers), NUMBERS_PER_QUERY):
        for pk, mark in StoryMark.objects.filter(entry__in=some).order_by("entry").values_list("entry_id", "mark"):
            found[pk].append(mark)
    return found


def _load_candidates(numbers: Iterable[int]) -> dict[int, _Candidate]:
    names = ("pk", "feed_id", "story", "identity", "link", "feed__host", "arrival_number")
    found: dict[int, _Candidate] = {}
    for some in split_portions(numbers, NUMBERS_PER_QUERY):
        rows = Entry.objects.filter(pk__in=some, feed__is_hidden=False).order_by()
        for pk, feed_id, story, identity, link, feed_host, arrival in rows.values_list(*names):
            host = story_marks.link_host(link) or feed_host
            found[pk] = _Candidate(pk, feed_id, story, identity, host, is_known=arrival is not None)
    return found


def _share_identities(identities: Iterable[str]) -> dict[str, list[int]]:
    """The entries of each identity that more than one has."""
    found: defaultdict[str, list[int]] = defaultdict(list)
    for some in split_portions(set(identities), NUMBERS_PER_QUERY):
        entries = Entry.objects.filter(identity__in=some).order_by("pk")
        for identity, pk in entries.values_list("identity", "pk"):
            found[identity].append(pk)
    return {identity: pks for identity, pks in found.items() if 1 < len(pks) <= MAX_SHARERS}


def _share_marks(marks: Iterable[int]) -> dict[int, list[int]]:
    """The entries of each mark that more than one has."""
    found: defaultdict[int, list[int]] = defaultdict(list)
    for some in split_portions(marks, NUMBERS_PER_QUERY):
        counted = StoryMark.objects.filter(mark__in=some).order_by().values("mark").annotate(sharers=Count("pk"))
        shared = list(counted.filter(sharers__gt=1, sharers__lte=MAX_SHARERS).values_list("mark", flat=True))
        for mark, pk in StoryMark.objects.filter(mark__in=shared).order_by("entry").values_list("mark", "entry_id"):
            found[mark].append(pk)
    return found


def _group_sharers(
    marks: Mapping[int, Sequence[int]],
    rows: Mapping[int, _Candidate],
    by_identity: Mapping[str, Sequence[int]],
    by_mark: Mapping[int, Sequence[int]],
) -> _Sharers:
    """Of a link that two entries of one feed have, there are no sharers."""
    useless = {mark for mark, pks in by_mark.items() if story_marks.way_of(mark) is Way.LINK and _has_twice(pks, rows)}
    found: defaultdict[int, dict[Way, Sequence[int]]] = defaultdict(dict)
    for pk in marks.keys() & rows.keys():
        counts: defaultdict[Way, Counter[int]] = defaultdict(Counter)
        for mark in marks[pk]:
            way = story_marks.way_of(mark)
            sharers = by_identity.get(rows[pk].identity, ()) if way is Way.ID else by_mark.get(mark, ())
            counts[way].update(() if mark in useless else (other for other in sharers if other != pk and other in rows))
        for way, counted in counts.items():  # of those with as many common marks, the earliest first
            if counted:
                found[pk][way] = sorted(counted, key=lambda other: (-counted[other], other))
    return found


def _has_twice(pks: Iterable[int], rows: Mapping[int, _Candidate]) -> bool:
    counts = Counter(rows[pk].feed_id for pk in pks if pk in rows)
    return max(counts.values(), default=0) > 1


def _choose_stories(rows: Mapping[int, _Candidate], sharers: _Sharers) -> dict[int, int]:
    """Returns the stories that are found. Changes the candidates."""
    members = _load_members({row.story_number for row in rows.values()})
    found: dict[int, int] = {}
    for pk in sorted(sharers):
        row = rows[pk]
        if row.story is None and len(members[pk]) == 1:  # else it is the first of others
            story = _choose_story(row, rows, sharers[pk], members)
            if story is not None:
                row.story = found[pk] = story
                members[story].append(row.feed_id)
        row.is_known = True
    return found


def _load_members(stories: Collection[int]) -> defaultdict[int, list[int]]:
    """The feeds of the entries of these stories."""
    found: defaultdict[int, list[int]] = defaultdict(list)
    for some in split_portions(stories, NUMBERS_PER_QUERY):
        rows = Entry.objects.filter(members_of(some)).order_by()
        for pk, story, feed_id in rows.values_list("pk", "story", "feed_id"):
            found[story or pk].append(feed_id)
    return found


def _choose_story(
    row: _Candidate,
    rows: Mapping[int, _Candidate],
    sharers: Mapping[Way, Sequence[int]],
    members: Mapping[int, Collection[int]],
) -> int | None:
    """Returns the story of the surest candidate whose story has no entry of this feed."""
    for way, others in sorted(sharers.items()):
        some = [rows[other] for other in others]
        open_to = [other for other in some if other.is_known and row.feed_id not in members[other.story_number]]
        if way is Way.TEXT:
            open_to = _leave_out_templates(row, some, open_to)
        chosen = next(_alike(row, open_to) if way is Way.TEXT else iter(open_to), None)
        if chosen is not None:
            return chosen.story_number
    return None


def _leave_out_templates(
    row: _Candidate, sharers: Iterable[_Candidate], others: Iterable[_Candidate]
) -> list[_Candidate]:
    """The others without those of feeds that have such a text twice: it is a notice, or a form that is filled in."""
    counts = Counter([row.feed_id, *(other.feed_id for other in sharers)])
    return [other for other in others if counts[row.feed_id] == counts[other.feed_id] == 1]


def _alike(row: _Candidate, others: Sequence[_Candidate]) -> Iterator[_Candidate]:
    """Yields those with nearly the same text, on other hosts: on one host the link tells."""
    far = [other for other in others if other.host != row.host][:MAX_COMPARED]
    compared = [row.pk, *(other.pk for other in far)] if far else []
    stored = Entry.objects.filter(pk__in=compared).order_by().values_list("pk", "title", "text")
    texts = {pk: _read_text(title, text) for pk, title, text in stored}
    for other in far:
        if row.pk in texts and other.pk in texts and story_marks.are_alike(texts[row.pk], texts[other.pk]):
            yield other


def _read_text(title: str, text: str) -> StoryText:
    return StoryText(words.fold_text(title), frozenset(story_marks.split_shingles(words.split_parts(text))))
