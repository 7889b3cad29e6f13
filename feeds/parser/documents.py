"""The values of a parsed feed, whatever its format, their drafts, and the limits of both.

Values: times are aware, in UTC; addresses are absolute http or https, or empty; values that the publisher did not
give are empty or None, never made up. Drafts: as the readers leave them, texts raw, addresses relative, nothing
cut.
"""

import json
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from datetime import datetime, timedelta
from typing import Any, Literal

FeedFormat = Literal["rss", "rdf", "atom", "json"]
ReaderName = Literal["tree", "json", "feedparser"]

JSON_EXTENSION = "_tarry"
"""The extension of this site's own output, for values without a field in JSON Feed."""


@dataclass(frozen=True, slots=True)
class Author:
    """The author of an entry or a feed. One of the three is there, the others may be empty."""

    name: str = ""
    email: str = ""
    url: str = ""


@dataclass(frozen=True, slots=True)
class ParsedCategory:
    """A term, its scheme (an address, mostly), and its label where that differs."""

    term: str
    scheme: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class Enclosure:
    """A file that belongs to an entry. `media_type` is the publisher's word, empty for none."""

    url: str
    media_type: str = ""
    length_bytes: int | None = None
    seconds: int | None = None
    title: str = ""


@dataclass(frozen=True, slots=True)
class EntrySource:
    """The feed that an entry was taken from: its title, its own address, and its site's."""

    title: str = ""
    url: str = ""
    link: str = ""


@dataclass(frozen=True, slots=True)
class Point:
    """A place (GeoRSS), in degrees of WGS 84."""

    latitude: float
    longitude: float


def make_point(latitude: object, longitude: object) -> Point | None:
    """Returns the place; None if these are no degrees."""
    if not isinstance(latitude, int | float) or not isinstance(longitude, int | float):
        return None
    return Point(float(latitude), float(longitude)) if abs(latitude) <= 90 and abs(longitude) <= 180 else None


@dataclass(frozen=True, slots=True)
class Chapter:
    """A chapter of a sound or a film, from `start` on, in seconds."""

    start: float
    title: str = ""
    url: str = ""
    image: str = ""


@dataclass(frozen=True, slots=True)
class Transcript:
    """A file with the words of an episode. `media_type` and `language` are the publisher's, empty for none."""

    url: str
    media_type: str = ""
    language: str = ""


@dataclass(frozen=True, slots=True)
class ParsedEntry:
    """One entry. `title` is text, `summary` and `content` are sanitised HTML.

    `content` is the fullest text, even if the publisher called it a description; `summary` is a second, shorter one.
    `updated` is only there when it differs from `published`. `id` is the publisher's word, empty where there is none or
    it is not unique. Authors are those of the entry, not inherited from the feed. `youtube` is the id of its video
    there. `chapters_url` is a file of chapters, `full` the content of the entry's page: no feed has it, and it is set
    after the page was fetched.
    """

    id: str = ""
    link: str = ""
    title: str = ""
    published: datetime | None = None
    updated: datetime | None = None
    summary: str = ""
    content: str = ""
    authors: tuple[Author, ...] = ()
    categories: tuple[ParsedCategory, ...] = ()
    enclosures: tuple[Enclosure, ...] = ()
    image: str = ""
    comments: str = ""
    language: str = ""
    source: EntrySource | None = None
    point: Point | None = None
    season: int | None = None
    episode: int | None = None
    chapters: tuple[Chapter, ...] = ()
    chapters_url: str = ""
    transcripts: tuple[Transcript, ...] = ()
    youtube: str = ""
    full: str = ""


@dataclass(frozen=True, slots=True)
class Cloud:
    """An rssCloud server to subscribe at: the attributes of RSS' <cloud>."""

    domain: str
    port: int
    path: str
    register_procedure: str
    protocol: str


@dataclass(frozen=True, slots=True)
class FeedHead:
    """The feed's words about itself. `link` is its site, `self_link` its own address, `icon` a small picture.

    `skip_hours` are hours of the day in GMT (0 to 23), `skip_days` days of the week (Monday is 0). `cloud_url` is that
    of <source:cloud>, which goes before `cloud`. `next_link` is the next page (RFC 5005), `new_address` the address
    that a podcast has moved to.
    """

    id: str = ""
    link: str = ""
    title: str = ""
    subtitle: str = ""
    updated: datetime | None = None
    language: str = ""
    rights: str = ""
    image: str = ""
    icon: str = ""
    authors: tuple[Author, ...] = ()
    categories: tuple[ParsedCategory, ...] = ()
    self_link: str = ""
    next_link: str = ""
    new_address: str = ""
    hubs: tuple[str, ...] = ()
    cloud: Cloud | None = None
    cloud_url: str = ""
    ttl_minutes: int | None = None
    skip_hours: tuple[int, ...] = ()
    skip_days: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ParsedFeed:
    """A feed that was parsed. Entries are in the document's order.

    `found` is the number of entries in the document, of which the newest are in `entries`; `notes` are sentences on
    parts that were left out or mended.
    """

    feed: FeedHead
    entries: tuple[ParsedEntry, ...]
    format: FeedFormat
    reader: ReaderName
    found: int
    notes: tuple[str, ...] = ()


TextKind = Literal["text", "html", "unsaid"]


@dataclass(frozen=True, slots=True)
class DraftText:
    """A text, its markup, and the base of its relative addresses (None if the document gives none).

    RSS does not say whether its texts are HTML: `unsaid` is decided by the text itself.
    """

    value: str
    kind: TextKind = "text"
    base: str | None = None


NO_TEXT = DraftText("")


@dataclass(slots=True)
class EntryDraft:
    """The draft of an entry: everything as written. `base` is the base of its relative addresses."""

    base: str
    id: str = ""
    link: str = ""
    title: DraftText = NO_TEXT
    published: datetime | None = None
    updated: datetime | None = None
    summary: DraftText = NO_TEXT
    content: DraftText = NO_TEXT
    authors: list[Author] = field(default_factory=list)
    categories: list[ParsedCategory] = field(default_factory=list)
    enclosures: list[Enclosure] = field(default_factory=list)
    image: str = ""
    comments: str = ""
    language: str = ""
    source: EntrySource | None = None
    point: Point | None = None
    season: int | None = None
    episode: int | None = None
    chapters: list[Chapter] = field(default_factory=list)
    chapters_url: str = ""
    transcripts: list[Transcript] = field(default_factory=list)
    youtube: str = ""

    @property
    def moment(self) -> datetime | None:
        return self.updated or self.published


@dataclass(slots=True)
class FeedDraft:
    base: str
    id: str = ""
    link: str = ""
    title: DraftText = NO_TEXT
    subtitle: DraftText = NO_TEXT
    updated: datetime | None = None
    language: str = ""
    rights: DraftText = NO_TEXT
    image: str = ""
    icon: str = ""
    authors: list[Author] = field(default_factory=list)
    categories: list[ParsedCategory] = field(default_factory=list)
    self_link: str = ""
    next_link: str = ""
    new_address: str = ""
    hubs: list[str] = field(default_factory=list)
    cloud: Cloud | None = None
    cloud_url: str = ""
    ttl_minutes: int | None = None
    skip_hours: list[int] = field(default_factory=list)
    skip_days: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class FeedLimits:
    """Limits of a document. One with more than `bytes` is refused; other parts are cut, with a note.

    feedparser reads documents that are not well-formed. It takes a hundred times as long for an entry and gets less: so
    many characters, and so many entries from the document's start.
    """

    bytes: int = 25_000_000
    entries: int = 1_000
    loose_characters: int = 1_000_000
    loose_entries: int = 200
    content_characters: int = 500_000
    text_characters: int = 2_000
    url_characters: int = 4_000
    people: int = 20
    parts: int = 100
    """Categories, enclosures, transcripts and hubs: so many of each."""
    chapters: int = 500
    part_characters: int = 200
    """Characters of a category, of the title of an enclosure."""
    future: timedelta = timedelta(days=1)
    """The most that a date may be ahead, for wrong clocks and time zones. Later ones count as none."""


DEFAULT_LIMITS = FeedLimits()


Json = dict[str, Any]

_UNSTORABLE = dict.fromkeys((0, *range(0xD800, 0xE000)))
_LIST_CLASSES: Mapping[str, type[Any]] = {
    **{"authors": Author, "categories": ParsedCategory, "enclosures": Enclosure},
    **{"chapters": Chapter, "transcripts": Transcript},
}
_PART_CLASSES: Mapping[str, type[Any]] = {"source": EntrySource, "point": Point, "cloud": Cloud}
_DATE_FIELDS = frozenset({"published", "updated"})


def entry_from_json(data: Mapping[str, Any]) -> ParsedEntry:
    """The entry of these fields. Unknown fields, of another version, are ignored."""
    return ParsedEntry(**_decode_fields(data, ParsedEntry))


def count_json_characters(written: Mapping[str, Any]) -> int:
    return len(json.dumps(written, ensure_ascii=False))


def feed_from_json(data: Mapping[str, Any]) -> FeedHead:
    return FeedHead(**_decode_fields(data, FeedHead))


def strip_unstorable(text: str) -> str:
    return text.translate(_UNSTORABLE)


def encode_fields(value: Any) -> Json:
    """The non-empty fields of an entry, a feed or a part of them, by their names."""
    found = {}
    for each in fields(value):
        one = getattr(value, each.name)
        if each.default is MISSING or one != each.default:
            found[each.name] = _encode_value(one)
    return found


def _encode_value(value: Any) -> Any:
    match value:
        case str():
            return strip_unstorable(value)
        case None | bool() | int() | float():
            return value
        case datetime():
            return value.isoformat()
        case tuple():
            return [_encode_value(one) for one in value]
    return encode_fields(value)


def _decode_fields(data: Mapping[str, Any], kind: type[Any]) -> Json:
    known = {each.name for each in fields(kind)}
    return {name: _decode_value(name, value) for name, value in data.items() if name in known}


def _decode_value(name: str, value: Any) -> Any:
    if name in _DATE_FIELDS:
        return datetime.fromisoformat(value)
    if name in _LIST_CLASSES:
        return tuple(_LIST_CLASSES[name](**one) for one in value)
    if name in _PART_CLASSES:
        return _PART_CLASSES[name](**value)
    return tuple(value) if isinstance(value, list) else value
