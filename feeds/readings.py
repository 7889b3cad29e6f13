"""Reads a body into the feed and its new and changed entries, as values and as JSON.

All values are ready for the database, so that storing them needs no further work. In JSON, empty fields are left
out, and characters that databases do not store (NUL, halves of surrogate pairs) are dropped.

PURE: imports neither Django, Celery, Redis nor the network; the time is an argument.
"""

import re
from collections.abc import Iterator, Mapping, Set
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from . import diff, story_marks, words
from .diff import EntryChange, EntryMarks
from .errors import ParseError
from .parser import discovery, documents, markup, reader
from .parser.discovery import FeedAddress
from .parser.documents import ParsedEntry

MAX_TITLE_CHARACTERS = 2000
MAX_SEARCHABLE_CHARACTERS = 20_000


@dataclass(frozen=True, slots=True)
class BodyToRead:
    """A body's content type, address and time of fetching, and the marks of the stored entries."""

    content_type: str
    url: str
    fetched_at: datetime
    kept: tuple[EntryMarks, ...]

    def to_json(self) -> dict[str, Any]:
        marks = [[each.identity, each.likeness, each.content, each.dates] for each in self.kept]
        return {**asdict(self), "fetched_at": self.fetched_at.isoformat(), "kept": marks}

    @classmethod
    def from_json(cls, held: Mapping[str, Any]) -> "BodyToRead":
        fetched_at, kept = datetime.fromisoformat(held["fetched_at"]), tuple(EntryMarks(*each) for each in held["kept"])
        return cls(held["content_type"], held["url"], fetched_at, kept)


@dataclass(frozen=True, slots=True)
class EntryRow:
    """An entry, ready to be stored. `was` is the identity under which it is stored already, empty for none.

    `happened_at` comes from `diff.entry_happened_at`. Searches look at `text`. `is_excerpt`: its page may say more.
    By `story_marks` it is found in other feeds.
    """

    marks: EntryMarks
    title: str
    link: str
    text: str
    data: Mapping[str, Any]
    happened_at: datetime
    was: str = ""
    is_edited: bool = True
    is_excerpt: bool = False
    story_marks: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "happened_at": self.happened_at.isoformat()}

    @classmethod
    def from_json(cls, held: Mapping[str, Any]) -> "EntryRow":
        marks, happened_at = EntryMarks(**held["marks"]), datetime.fromisoformat(held["happened_at"])
        found = tuple(held.get("story_marks", ()))
        return cls(**{**held, "marks": marks, "happened_at": happened_at, "story_marks": found})


@dataclass(frozen=True, slots=True)
class FeedReading:
    """A feed that was read. `said` is its own data, `here` the identities of its entries, old and new.

    `is_same`: it is the feed of the stored entries.
    """

    said: Mapping[str, Any]
    rows: tuple[EntryRow, ...]
    here: tuple[str, ...]
    is_same: bool
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        plain = {"said": self.said, "here": self.here, "is_same": self.is_same, "notes": self.notes}
        return {**plain, "rows": [row.to_json() for row in self.rows]}

    @classmethod
    def from_json(cls, held: Mapping[str, Any]) -> "FeedReading":
        rows = tuple(EntryRow.from_json(row) for row in held["rows"])
        return cls(held["said"], rows, tuple(held["here"]), held["is_same"], tuple(held["notes"]))


@dataclass(frozen=True, slots=True)
class NoFeed:
    """A body that is no feed, with the reason in a sentence; of a web page its feeds, its hubs, its own address."""

    why: str
    announced: tuple[FeedAddress, ...] = ()
    hubs: tuple[str, ...] = ()
    itself: str = ""


def read_feed_body(body: bytes, question: BodyToRead) -> FeedReading | NoFeed:
    try:
        parsed = reader.parse_feed(body, question.content_type, question.url, question.fetched_at)
    except ParseError as error:
        found = discovery.discover_feeds(body, question.url, question.content_type)
        return NoFeed(str(error), tuple(found), *discovery.discover_hubs(body, question.url, question.content_type))
    update = diff.compare_entries(question.kept, parsed.entries, question.fetched_at)
    places = {id(entry): place for place, entry in enumerate(parsed.entries)}
    changes = (*update.new, *update.changed)
    shared = story_marks.shared_links(entry.link for entry in parsed.entries)
    rows = tuple(_entry_row(each, question.fetched_at, places[id(each.entry)], shared) for each in changes)
    here = {each.identity for each in diff.mark_entries(parsed.entries)} | {row.was for row in rows if row.was}
    return FeedReading(
        said=documents.encode_fields(parsed.feed),
        rows=rows,
        here=tuple(here),
        is_same=update.is_same_feed(len(question.kept)),
        notes=tuple(documents.strip_unstorable(note) for note in parsed.notes),
    )


def _entry_row(each: EntryChange, now: datetime, place: int, shared_links: Set[str]) -> EntryRow:
    entry = each.entry
    assert isinstance(entry, ParsedEntry)
    text = searchable_text(entry)
    return EntryRow(
        marks=each.marks,
        title=documents.strip_unstorable(entry.title)[:MAX_TITLE_CHARACTERS],
        link=documents.strip_unstorable(entry.link),
        text=text,
        data=documents.encode_fields(entry),
        happened_at=diff.entry_happened_at(entry, now, place),
        was=each.was,
        is_edited=each.is_edited,
        is_excerpt=is_excerpt(entry),
        story_marks=tuple(_mark_story(each, entry, text, shared_links)),
    )


def _mark_story(each: EntryChange, entry: ParsedEntry, text: str, shared_links: Set[str]) -> Iterator[int]:
    """Yields the marks of an entry, without those that several entries of its document have."""
    if entry.id and each.marks.identity in diff.mark_id(entry.id):
        yield from story_marks.mark_id(entry.id)
    if story_marks.simplify_link(entry.link) not in shared_links:
        yield from story_marks.mark_link(entry.link)
    yield from story_marks.mark_text(words.split_parts(text))


_EXCERPT_CHARACTERS = 2_000
_CUT_SHORT = re.compile(
    r"(?:\.\.\.|…)\W*(?:\w+\W+){0,3}\w*\W*\Z|\b(?:read|continue|more|weiterlesen|mehr)\W*\Z", re.IGNORECASE
)


def is_excerpt(entry: ParsedEntry) -> bool:
    """True if the page of an entry may say more than the feed: its text is short, or ends as if cut."""
    if not entry.link:
        return False
    text = markup.html_to_text(entry.content or entry.summary)
    return len(text) < _EXCERPT_CHARACTERS or _CUT_SHORT.search(text, max(0, len(text) - 100)) is not None


def searchable_text(entry: ParsedEntry) -> str:
    """The words of an entry for searches: of title, names and texts, cut to MAX_SEARCHABLE_CHARACTERS."""
    names = [author.name for author in entry.authors] + [each.label or each.term for each in entry.categories]
    texts = [markup.html_to_text(text) for text in (entry.summary, entry.content, entry.full) if text]
    parts = [
        " ".join(words.split_words(documents.strip_unstorable(part[:MAX_SEARCHABLE_CHARACTERS])))
        for part in (entry.title, *names, *texts)
    ]
    return f" {words.PART_END} ".join(filter(None, parts))[:MAX_SEARCHABLE_CHARACTERS]
