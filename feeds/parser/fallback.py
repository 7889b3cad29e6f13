"""Feeds that are not well-formed, read by feedparser. PURE.

It is slow and forgiving. What it gives is made the same as what the other readers give.
"""

import re
from collections.abc import Iterator, Mapping
from io import BytesIO
from typing import Any

import feedparser

from feeds.errors import ParseError

from . import addresses, dates, entries, people
from .documents import Author, Category, Cloud, Enclosure, Format, Point, Source
from .drafts import NOTHING, EntryDraft, FeedDraft, Kind, Words
from .limits import Limits
from .newest import newest
from .trees import Read

_START = re.compile(r"<(?:\w+:)?(?:item|entry)[\s>]", re.IGNORECASE)
# What feedparser raises where a document takes it by surprise: its bugs, not ours, and not known one by one.
_ITS_OWN = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
    re.error,
)
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def shortened(text: str, limits: Limits) -> tuple[str, int]:
    """As much of a document as feedparser is given, whole entries from its start; and how many entries it had."""
    starts = [match.start() for match in _START.finditer(text)]
    within = [start for start in starts if start <= limits.loose_characters]
    if len(within) > limits.loose_entries:
        return text[: within[limits.loose_entries]], len(starts)
    if len(text) <= limits.loose_characters:
        return text, len(starts)
    return text[: within[-1] if len(within) > 1 else limits.loose_characters], len(starts)


def read(text: str, url: str, limits: Limits) -> Read:
    """Reads a document without a DOCTYPE. Raises ParseError for what feedparser knows nothing of either."""
    part, found = shortened(text, limits)
    # A file object, and never a text: feedparser would take that for an address or a path.
    # Relative addresses stay so, and HTML as it is: both are done for all readers alike.
    try:
        parsed = feedparser.parse(
            BytesIO(part.encode()),
            response_headers={"content-type": "application/xml; charset=utf-8"},
            resolve_relative_uris=False,
            sanitize_html=False,
        )
    except _ITS_OWN as error:
        raise ParseError(f"This is so broken that it cannot be read ({type(error).__name__}).") from error
    version = dict.get(parsed, "version") or ""
    if not parsed.entries and not (version and parsed.feed.get("title")):
        raise ParseError("This is not a feed of any known format, nor is it well-formed XML.")
    kept, number = newest((_entry(entry, url) for entry in parsed.entries), limits.entries)
    return Read(_feed(parsed.feed, url), kept, max(found, number), _format(version))


def _format(version: str) -> Format:
    if version.startswith("atom"):
        return "atom"
    return "rdf" if version in ("rss090", "rss10") else "rss"


def _get(value: Mapping[str, Any], key: str) -> Any:
    """What is there under this very name: feedparser's dictionaries find others in their place."""
    return dict.get(value, key) if isinstance(value, dict) else None


def _text(value: Mapping[str, Any], key: str) -> str:
    found = _get(value, key)
    return found.strip() if isinstance(found, str) else ""


def _dicts(value: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    found = _get(value, key)
    return [part for part in found if isinstance(part, dict)] if isinstance(found, list) else []


def _words(value: Mapping[str, Any] | None, url: str) -> Words:
    if not value:
        return NOTHING
    kind: Kind = "html" if "html" in _text(value, "type") else "unsaid"
    base = _text(value, "base")
    return Words(_text(value, "value"), kind, addresses.joined(url, base) if base else None)


def _links(value: Mapping[str, Any], relation: str) -> Iterator[Mapping[str, Any]]:
    return (link for link in _dicts(value, "links") if _text(link, "rel") == relation and _text(link, "href"))


def _link(value: Mapping[str, Any], relation: str) -> str:
    return next((_text(link, "href") for link in _links(value, relation)), "")


def _feed(feed: Mapping[str, Any], url: str) -> FeedDraft:
    draft = FeedDraft(url)
    draft.id = _text(feed, "id")
    draft.link = _text(feed, "link")
    draft.title = _words(_get(feed, "title_detail"), url)
    draft.subtitle = _words(_get(feed, "subtitle_detail"), url)
    draft.updated = dates.parse(_text(feed, "updated") or _text(feed, "published"))
    draft.language = _text(feed, "language")
    draft.rights = _words(_get(feed, "rights_detail"), url)
    draft.image = _text(_get(feed, "image") or {}, "href") or _text(feed, "logo") or _text(feed, "icon")
    draft.authors = _authors(feed)
    draft.categories = _categories(feed)
    draft.self_link = _link(feed, "self")
    draft.next_link = _link(feed, "next")
    draft.hubs = [_text(link, "href") for link in _links(feed, "hub")]
    draft.cloud = _cloud(_get(feed, "cloud"))
    draft.ttl_minutes = entries.whole(_text(feed, "ttl"))
    draft.skip_days = [_DAYS.index(day) for day in [_text(feed, "day").lower()] if day in _DAYS]
    return draft


def _cloud(value: Mapping[str, Any] | None) -> Cloud | None:
    port = entries.whole(_text(value or {}, "port") or "80")
    if not value or not _text(value, "domain") or port is None or port > 65535:
        return None
    names = ("path", "registerprocedure", "protocol")
    return Cloud(_text(value, "domain"), port, *(_text(value, name) for name in names))


def _entry(entry: Mapping[str, Any], url: str) -> EntryDraft:
    draft = EntryDraft(url)
    draft.id = _text(entry, "id")
    draft.link = _text(entry, "link")
    draft.title = _words(_get(entry, "title_detail"), url)
    draft.published = dates.parse(_text(entry, "published") or _text(entry, "created"))
    draft.updated = dates.parse(_text(entry, "updated"))
    contents = _dicts(entry, "content")
    summary = _words(_get(entry, "summary_detail"), url)
    content = _words(contents[0], url) if contents else NOTHING
    draft.summary, draft.content = (summary, content) if content.value else (NOTHING, summary)
    draft.authors = _authors(entry)
    draft.categories = _categories(entry)
    draft.enclosures = list(_enclosures(entry))
    thumbnails = _dicts(entry, "media_thumbnail")
    draft.image = _text(thumbnails[0], "url") if thumbnails else _text(_get(entry, "image") or {}, "href")
    draft.comments = _text(entry, "comments")
    draft.language = _text(entry, "language")
    draft.source = _source(_get(entry, "source"))
    draft.point = _point(_get(entry, "where"))
    return draft


def _authors(value: Mapping[str, Any]) -> list[Author]:
    found = [
        Author(_text(author, "name"), _text(author, "email"), _text(author, "href"))
        for author in _dicts(value, "authors")
    ]
    found = [author for author in found if author != Author()]
    return found or [people.parse(text) for text in [_text(value, "author")] if text]


def _categories(value: Mapping[str, Any]) -> list[Category]:
    found = [Category(_text(tag, "term"), _text(tag, "scheme"), _text(tag, "label")) for tag in _dicts(value, "tags")]
    return [category for category in dict.fromkeys(found) if category.term]


def _enclosures(entry: Mapping[str, Any]) -> Iterator[Enclosure]:
    seconds = entries.duration(_text(entry, "itunes_duration"))
    for link in _links(entry, "enclosure"):
        length = entries.whole(_text(link, "length"))
        yield Enclosure(_text(link, "href"), _text(link, "type"), length, seconds, _text(link, "title"))
        seconds = None
    for media in _dicts(entry, "media_content"):
        if _text(media, "medium") != "image" and not _text(media, "type").startswith("image/"):
            length, long = entries.whole(_text(media, "filesize")), entries.duration(_text(media, "duration"))
            yield Enclosure(_text(media, "url"), _text(media, "type"), length, long)


def _source(value: Mapping[str, Any] | None) -> Source | None:
    if not value:
        return None
    return Source(_text(value, "title"), _text(value, "href") or _link(value, "self"), _text(value, "link"))


def _point(value: Mapping[str, Any] | None) -> Point | None:
    found = _get(value or {}, "coordinates")
    if not isinstance(found, tuple) or len(found) != 2 or not all(isinstance(number, float) for number in found):
        return None
    longitude, latitude = found
    return Point(latitude, longitude) if abs(latitude) <= 90 and abs(longitude) <= 180 else None
