"""What a feed holds, whatever format it came in: plain values, for whoever keeps, compares or renders them. PURE.

Times are aware, in UTC. Addresses are absolute http or https, or empty. What a publisher did not say is empty or
None, never made up.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

Format = Literal["rss", "rdf", "atom", "json"]
Reader = Literal["tree", "json", "feedparser"]


@dataclass(frozen=True, slots=True)
class Author:
    """Who wrote it. One of the three is there, the others may be empty."""

    name: str = ""
    email: str = ""
    url: str = ""


@dataclass(frozen=True, slots=True)
class Category:
    """A term, what it is a term of (an address, mostly), and how it is shown where that differs."""

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
class Source:
    """The feed that an entry was taken from: its title, its own address, and its site's."""

    title: str = ""
    url: str = ""
    link: str = ""


@dataclass(frozen=True, slots=True)
class Point:
    """A place (GeoRSS), in degrees of WGS 84."""

    latitude: float
    longitude: float


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry. `title` is text, `summary` and `content` sanitised HTML.

    `content` is the fullest there is, also when the publisher called it a description; `summary` is only what was
    given beside it. `updated` is only there when it differs from `published`. `id` is the publisher's word, empty
    where there is none or it is not unique. Authors are those of the entry, not inherited from the feed.
    """

    id: str = ""
    link: str = ""
    title: str = ""
    published: datetime | None = None
    updated: datetime | None = None
    summary: str = ""
    content: str = ""
    authors: tuple[Author, ...] = ()
    categories: tuple[Category, ...] = ()
    enclosures: tuple[Enclosure, ...] = ()
    image: str = ""
    comments: str = ""
    language: str = ""
    source: Source | None = None
    point: Point | None = None


@dataclass(frozen=True, slots=True)
class Cloud:
    """Where to subscribe by rssCloud: the attributes of RSS' <cloud>."""

    domain: str
    port: int
    path: str
    register_procedure: str
    protocol: str


@dataclass(frozen=True, slots=True)
class Feed:
    """What is said of a feed as a whole. `link` is its site, `self_link` its own address.

    `skip_hours` are hours of the day in GMT (0 to 23), `skip_days` days of the week (Monday is 0). `cloud_url` is
    that of <source:cloud>, which goes before `cloud`. `next_link` is the next page (RFC 5005), `new_address` where
    a podcast says that it has moved to.
    """

    id: str = ""
    link: str = ""
    title: str = ""
    subtitle: str = ""
    updated: datetime | None = None
    language: str = ""
    rights: str = ""
    image: str = ""
    authors: tuple[Author, ...] = ()
    categories: tuple[Category, ...] = ()
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
    """A feed that was read. Entries stand in the document's order.

    `found` is how many entries the document has, of which the newest are in `entries`; `notes` are sentences on
    what was left out or mended.
    """

    feed: Feed
    entries: tuple[Entry, ...]
    format: Format
    reader: Reader
    found: int
    notes: tuple[str, ...] = ()
