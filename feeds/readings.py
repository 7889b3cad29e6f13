"""What is read of a body: the feed, and which of its entries are new or changed. PURE.

Everything is as the database takes it, so that whoever stores it has nothing left to do.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from feeds import encoding, searching, updating
from feeds.errors import ParseError
from feeds.parsing import discovery, reading, sanitising
from feeds.parsing.discovery import FeedAddress
from feeds.parsing.documents import Entry
from feeds.updating import Changed, Marks, New

MOST_TITLE = 2000
MOST_SEARCHED_CHARACTERS = 20_000


@dataclass(frozen=True, slots=True)
class Question:
    """A body that came with this content type from this address at this time, and the marks of what is kept."""

    content_type: str
    url: str
    fetched_at: datetime
    kept: tuple[Marks, ...]

    def to_json(self) -> dict[str, Any]:
        marks = [[each.identity, each.likeness, each.content, each.dates] for each in self.kept]
        return {**asdict(self), "fetched_at": self.fetched_at.isoformat(), "kept": marks}

    @classmethod
    def from_json(cls, held: Mapping[str, Any]) -> "Question":
        fetched_at, kept = datetime.fromisoformat(held["fetched_at"]), tuple(Marks(*each) for each in held["kept"])
        return cls(held["content_type"], held["url"], fetched_at, kept)


@dataclass(frozen=True, slots=True)
class Row:
    """An entry that is stored as it is here. `was` is the identity under which it is kept already, empty for none.

    `happened_at` is as of `updating.happened_at`; `text` is what is searched.
    """

    marks: Marks
    title: str
    link: str
    text: str
    data: Mapping[str, Any]
    happened_at: datetime
    was: str = ""
    is_edited: bool = True

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "happened_at": self.happened_at.isoformat()}

    @classmethod
    def from_json(cls, held: Mapping[str, Any]) -> "Row":
        marks, happened_at = Marks(**held["marks"]), datetime.fromisoformat(held["happened_at"])
        return cls(**{**held, "marks": marks, "happened_at": happened_at})


@dataclass(frozen=True, slots=True)
class Reading:
    """A feed that was read. `said` is what it says as a whole, `here` the identities of its entries, old and new.

    `is_same`: it is the feed that entries are kept of.
    """

    said: Mapping[str, Any]
    rows: tuple[Row, ...]
    here: tuple[str, ...]
    is_same: bool
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        plain = {"said": self.said, "here": self.here, "is_same": self.is_same, "notes": self.notes}
        return {**plain, "rows": [row.to_json() for row in self.rows]}

    @classmethod
    def from_json(cls, held: Mapping[str, Any]) -> "Reading":
        rows = tuple(Row.from_json(row) for row in held["rows"])
        return cls(held["said"], rows, tuple(held["here"]), held["is_same"], tuple(held["notes"]))


@dataclass(frozen=True, slots=True)
class NoFeed:
    """Why it is none, in a sentence; if it is a web page, the feeds that it announces, its hubs, its own address."""

    why: str
    announced: tuple[FeedAddress, ...] = ()
    hubs: tuple[str, ...] = ()
    itself: str = ""


def read(body: bytes, question: Question) -> Reading | NoFeed:
    """What a body says, and what that changes."""
    try:
        parsed = reading.parse(body, question.content_type, question.url, question.fetched_at)
    except ParseError as error:
        found = discovery.discover(body, question.url, question.content_type)
        return NoFeed(str(error), tuple(found), *discovery.hubs(body, question.url, question.content_type))
    update = updating.compare(question.kept, parsed.entries, question.fetched_at)
    differing: tuple[New | Changed, ...] = (*update.new, *update.changed)
    places = {id(entry): place for place, entry in enumerate(parsed.entries)}
    rows = tuple(_row(each, question.fetched_at, places[id(each.entry)]) for each in differing)
    return Reading(
        said=encoding.feed_to_json(parsed.feed),
        rows=rows,
        here=tuple({each.identity for each in updating.marks(parsed.entries)} | {row.was for row in rows if row.was}),
        is_same=update.is_same_feed(len(question.kept)),
        notes=tuple(encoding.clean(note) for note in parsed.notes),
    )


def _row(each: New | Changed, now: datetime, place: int) -> Row:
    entry = each.entry
    assert isinstance(entry, Entry)
    return Row(
        marks=each.marks,
        title=encoding.clean(entry.title)[:MOST_TITLE],
        link=encoding.clean(entry.link),
        text=searched(entry),
        data=encoding.entry_to_json(entry),
        happened_at=updating.happened_at(entry, now, place),
        was=each.was if isinstance(each, Changed) else "",
        is_edited=each.is_edited if isinstance(each, Changed) else True,
    )


def searched(entry: Entry) -> str:
    """What an entry says as text, for searches: title, texts, names, as much as is looked at."""
    names = [author.name for author in entry.authors] + [each.label or each.term for each in entry.categories]
    texts = [sanitising.text_of(text) for text in (entry.summary, entry.content) if text]
    words = " ".join(part for part in (entry.title, *names, *texts) if part)[:MOST_SEARCHED_CHARACTERS]
    return searching.folded(encoding.clean(words))
