"""What has changed in a feed, entry by entry. PURE.

Entries are told apart by their id, else by their link, else by what they say. Some publishers give new ids to old
entries: those are recognised by the rest, so that they don't come once more.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import Field, dataclass, fields
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Any, ClassVar, Protocol

MOVING_DATE = timedelta(minutes=15)
"""A date so close to the fetch was made by it, if nothing else of the entry has changed."""
SAME_FEED_SHARE = 0.25
"""So much of what was found, or of what is kept, has to be in both."""

_APART = frozenset({"id", "published", "updated"})


class Entry(Protocol):
    """What is looked at of an entry. It is a dataclass, and may say more: all of its fields count."""

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
class Marks:
    """By what an entry is found again: digests of 32 hexadecimal digits, which are kept with it.

    `identity` tells it from the others of its feed. `likeness` is of its title and date, or of its title and content
    where it has no date; `content` of all that it says, `dates` of when it says that was.
    """

    identity: str
    likeness: str
    content: str
    dates: str


@dataclass(frozen=True, slots=True)
class New:
    """An entry that was not there before."""

    entry: Entry
    marks: Marks


@dataclass(frozen=True, slots=True)
class Changed:
    """An entry that is there, under the identity `was`. It was edited, or only goes by another id from now on."""

    entry: Entry
    marks: Marks
    was: str
    is_edited: bool


@dataclass(frozen=True, slots=True)
class Update:
    """What is to be stored, in the document's order. Entries that are not in the document any more stay as they are."""

    new: tuple[New, ...] = ()
    changed: tuple[Changed, ...] = ()
    unchanged: int = 0

    @property
    def known(self) -> int:
        """How many of the document's entries were there before."""
        return len(self.changed) + self.unchanged

    def is_same_feed(self, kept: int) -> bool:
        """Whether it is the feed that so many entries are kept of. A new address has to prove that."""
        found = self.known + len(self.new)
        return not kept or (found > 0 and self.known >= SAME_FEED_SHARE * min(found, kept))


def compare(kept: Iterable[Marks], found: Sequence[Entry], now: datetime) -> Update:
    """What a document changes in what is kept. `now` is when it was fetched."""
    entries: dict[str, tuple[Entry, Marks]] = {}
    for entry, each in zip(found, marks(found), strict=True):
        entries.setdefault(each.identity, (entry, each))  # of those that cannot be told apart, the first counts
    before = _recognised({each.identity: each for each in kept}, [each for _, each in entries.values()])
    new, changed, unchanged = [], [], 0
    for entry, each in entries.values():
        known = before.get(each.identity)
        if known is None:
            new.append(New(entry, each))
        elif (is_edited := _is_edited(known, each, entry, now)) or known.identity != each.identity:
            changed.append(Changed(entry, each, known.identity, is_edited))
        else:
            unchanged += 1
    return Update(tuple(new), tuple(changed), unchanged)


def marks(found: Sequence[Entry]) -> list[Marks]:
    """The marks of a document's entries. No two have one identity, but for entries that are the same in all."""
    ids = Counter(entry.id for entry in found)
    links = Counter(entry.link for entry in found if not _is_own(entry.id, ids))
    return [_marks(entry, ids, links) for entry in found]


def happened_at(entry: Entry, seen_at: datetime, place: int = 0) -> datetime:
    """When an entry came, for lists: as it says, but not later than it was seen.

    Those that do not say so came when they were first seen; `place` in the document keeps them in its order.
    """
    said = entry.published or entry.updated
    return min(said, seen_at) if said else seen_at - timedelta(milliseconds=place)


def _marks(entry: Entry, ids: Counter[str], links: Counter[str]) -> Marks:
    content = _digest("content", _without_dates(entry))
    if _is_own(entry.id, ids):
        identity = _digest("id", entry.id)
    elif _is_own(entry.link, links):
        identity = _digest("link", entry.link)
    else:
        identity = _digest("text", content)
    likeness = _digest("like", entry.title, entry.published) if entry.title and entry.published else content
    return Marks(identity, likeness, content, _digest("dates", entry.published, entry.updated))


def _is_own(text: str, counted: Counter[str]) -> bool:
    """Whether it belongs to one entry alone: some publishers give the same to all."""
    return bool(text) and counted[text] == 1


def _without_dates(entry: Entry) -> str:
    """All that an entry says, but its id and its dates. White space does not count."""
    names = (field.name for field in fields(entry) if field.name not in _APART)
    return " ".join("\x1f".join(str(getattr(entry, name)) for name in names).split())


def _digest(*parts: object) -> str:
    return blake2b("\x1e".join(map(str, parts)).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _recognised(kept: dict[str, Marks], found: Sequence[Marks]) -> dict[str, Marks]:
    """What is kept of each entry found, by the identity it has now. First by identity, then by the rest."""
    before = {each.identity: kept[each.identity] for each in found if each.identity in kept}
    taken = set(before)
    for key in _LIKE:
        left = _by(key, (each for each in kept.values() if each.identity not in taken))
        for likeness, same in _by(key, (each for each in found if each.identity not in before)).items():
            others = left.get(likeness, [])
            if len(same) == len(others) == 1:
                before[same[0].identity] = others[0]
                taken.add(others[0].identity)
    return before


def _by(key: Callable[[Marks], Hashable], every: Iterable[Marks]) -> dict[Hashable, list[Marks]]:
    found: defaultdict[Hashable, list[Marks]] = defaultdict(list)
    for each in every:
        found[key(each)].append(each)
    return found


_LIKE: tuple[Callable[[Marks], Hashable], ...] = (
    lambda each: (each.content, each.dates),
    lambda each: each.content,
    lambda each: each.likeness,
)
"""What makes one entry of two ids, the strictest first. Only where exactly one of each is alike."""


def _is_edited(known: Marks, each: Marks, entry: Entry, now: datetime) -> bool:
    if known.content != each.content:
        return True
    dates = [date for date in (entry.published, entry.updated) if date is not None]
    return known.dates != each.dates and not any(abs(now - date) <= MOVING_DATE for date in dates)
