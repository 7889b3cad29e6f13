"""Compares a document's entries with the stored ones: new, changed or unchanged.

Entries are told apart by their id, else by their link, else by their content. Some publishers give new ids to old
entries: those are recognised by the rest, so that they do not come once more.

PURE: imports neither Django, Celery, Redis nor the network; the time is an argument.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import Field, dataclass, fields
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Any, ClassVar, Protocol

MOVING_DATE_WITHIN = timedelta(minutes=15)
"""A date this close to the fetch was made by it, if nothing else of the entry has changed."""
SAME_FEED_SHARE = 0.25
"""The share of the found entries, or of the stored ones, that has to be in both."""

_FIELDS_WITHOUT_CONTENT = frozenset({"id", "published", "updated", "full"})
_LATER_FIELDS = frozenset({"season", "episode", "chapters", "chapters_url", "transcripts", "youtube"})
"""Fields that earlier versions did not read: an entry without them keeps the marks that it has from those."""


class ComparedEntry(Protocol):
    """The fields of an entry that are compared one by one. It is a dataclass; all its other fields count as content."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def id(self) -> str: ...
    @property
    def link(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def published(self) -> datetime | None: ...
    @property
    def updated(self) -> datetime | None: ...


@dataclass(frozen=True, slots=True)
class EntryMarks:
    """The digests by which an entry is recognised, of 32 hexadecimal digits, stored with it.

    `identity` tells it from the others of its feed. `likeness` is of its title and date, or of its content where one
    of them is missing; `content` of all fields but id and dates, `dates` of its dates.
    """

    identity: str
    likeness: str
    content: str
    dates: str


@dataclass(frozen=True, slots=True)
class EntryChange:
    """A new entry, or one stored under the identity `was`, which was edited or only has another id from now on."""

    entry: ComparedEntry
    marks: EntryMarks
    was: str = ""
    is_edited: bool = True


@dataclass(frozen=True, slots=True)
class FeedUpdate:
    """The entries to store, in the document's order. Stored entries no longer in the document stay as they are."""

    new: tuple[EntryChange, ...] = ()
    changed: tuple[EntryChange, ...] = ()
    unchanged: int = 0

    def is_same_feed(self, kept: int) -> bool:
        """Tells whether it is the feed of the `kept` stored entries. A new address has to prove that."""
        known = len(self.changed) + self.unchanged
        found = known + len(self.new)
        return not kept or (found > 0 and known >= SAME_FEED_SHARE * min(found, kept))


def compare_entries(kept: Iterable[EntryMarks], found: Sequence[ComparedEntry], now: datetime) -> FeedUpdate:
    """Compares a document's entries with the marks of the stored ones. `now` is when it was fetched."""
    entries: dict[str, tuple[ComparedEntry, EntryMarks]] = {}
    for entry, each in zip(found, mark_entries(found), strict=True):
        entries.setdefault(each.identity, (entry, each))  # of those that cannot be told apart, the first counts
    before = _recognise_kept({each.identity: each for each in kept}, [each for _, each in entries.values()])
    new, changed, unchanged = [], [], 0
    for entry, each in entries.values():
        known = before.get(each.identity)
        if known is None:
            new.append(EntryChange(entry, each))
        elif (is_edited := _is_edited(known, each, entry, now)) or known.identity != each.identity:
            changed.append(EntryChange(entry, each, known.identity, is_edited))
        else:
            unchanged += 1
    return FeedUpdate(tuple(new), tuple(changed), unchanged)


def mark_entries(found: Sequence[ComparedEntry]) -> list[EntryMarks]:
    """Computes the marks of a document's entries. Two have the same identity only if they are the same in all."""
    ids = Counter(entry.id for entry in found)
    links = Counter(entry.link for entry in found if not _is_own(entry.id, ids))
    return [_mark_entry(entry, ids, links) for entry in found]


def mark_id(written: str) -> frozenset[str]:
    """Returns the identities of entries that output names by this text: their own id, or their own link."""
    return frozenset((_digest("id", written), _digest("link", written)))


def entry_happened_at(entry: ComparedEntry, seen_at: datetime, place: int = 0) -> datetime:
    """The time of an entry in lists: its own date, but not later than it was seen.

    Entries without a date get the time when they were first seen; `place` in the document keeps their order.
    """
    published_at = entry.published or entry.updated
    return min(published_at, seen_at) if published_at else seen_at - timedelta(milliseconds=place)


def _mark_entry(entry: ComparedEntry, ids: Counter[str], links: Counter[str]) -> EntryMarks:
    content = _digest("content", _content_text(entry))
    if _is_own(entry.id, ids):
        identity = _digest("id", entry.id)
    elif _is_own(entry.link, links):
        identity = _digest("link", entry.link)
    else:
        identity = _digest("text", content)
    likeness = _digest("like", entry.title, entry.published) if entry.title and entry.published else content
    return EntryMarks(identity, likeness, content, _digest("dates", entry.published, entry.updated))


def _is_own(text: str, counted: Counter[str]) -> bool:
    """Tells whether it belongs to one entry alone: some publishers give the same to all."""
    return bool(text) and counted[text] == 1


def _content_text(entry: ComparedEntry) -> str:
    """The text of all fields of an entry but its id and dates. White space does not count."""
    names = (field.name for field in fields(entry) if field.name not in _FIELDS_WITHOUT_CONTENT)
    given = (name for name in names if name not in _LATER_FIELDS or getattr(entry, name))
    return " ".join("\x1f".join(str(getattr(entry, name)) for name in given).split())


def _digest(*parts: object) -> str:
    return blake2b("\x1e".join(map(str, parts)).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _recognise_kept(kept: dict[str, EntryMarks], found: Sequence[EntryMarks]) -> dict[str, EntryMarks]:
    """The stored marks of each found entry, by its present identity. Looked for by identity, then by the rest."""
    before = {each.identity: kept[each.identity] for each in found if each.identity in kept}
    taken = set(before)
    for key in _LIKENESS_KEYS:
        left = _group_by(key, (each for each in kept.values() if each.identity not in taken))
        for likeness, same in _group_by(key, (each for each in found if each.identity not in before)).items():
            others = left.get(likeness, [])
            if len(same) == len(others) == 1:
                before[same[0].identity] = others[0]
                taken.add(others[0].identity)
    return before


def _group_by(key: Callable[[EntryMarks], Hashable], every: Iterable[EntryMarks]) -> dict[Hashable, list[EntryMarks]]:
    found: defaultdict[Hashable, list[EntryMarks]] = defaultdict(list)
    for each in every:
        found[key(each)].append(each)
    return found


_LIKENESS_KEYS: tuple[Callable[[EntryMarks], Hashable], ...] = (
    lambda each: (each.content, each.dates),
    lambda each: each.content,
    lambda each: each.likeness,
)
"""The keys by which entries of two ids are one, the strictest first. Only where exactly one of each is alike."""


def _is_edited(known: EntryMarks, each: EntryMarks, entry: ComparedEntry, now: datetime) -> bool:
    if known.content != each.content:
        return True
    dates = [date for date in (entry.published, entry.updated) if date is not None]
    return known.dates != each.dates and not any(abs(now - date) <= MOVING_DATE_WITHIN for date in dates)
