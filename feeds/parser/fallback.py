"""Reads feeds that are not well-formed, with feedparser.

feedparser is slow and forgiving. Its result is converted to that of the other readers.
"""

import re
from collections.abc import Iterator, Mapping
from io import BytesIO
from typing import Any

import feedparser

from ..errors import ParseError
from . import documents, entries, markup, normalise
from .xml_reader import DraftDocument, keep_newest

_ENTRY_START = re.compile(r"<(?:\w+:)?(?:item|entry)[\s>]", re.IGNORECASE)
# Errors that feedparser raises for surprising documents: its bugs, not ours, and not known one by one.
_FEEDPARSER_ERRORS = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError),
    *(RecursionError, TypeError, ValueError, re.error),
)


def _shorten_text(text: str, limits: documents.FeedLimits) -> tuple[str, int]:
    """Returns the part of a document for feedparser, whole entries from its start; and the number of all entries."""
    starts = [match.start() for match in _ENTRY_START.finditer(text)]
    within = [start for start in starts if start <= limits.loose_characters]
    if len(within) > limits.loose_entries:
        return text[: within[limits.loose_entries]], len(starts)
    if len(text) <= limits.loose_characters:
        return text, len(starts)
    return text[: within[-1] if len(within) > 1 else limits.loose_characters], len(starts)


def read_loosely(text: str, url: str, limits: documents.FeedLimits) -> DraftDocument:
    """Reads a document without a DOCTYPE. Raises ParseError if feedparser does not know it either."""
    part, found = _shorten_text(text, limits)
    # A file object, and never a text: feedparser would take that for an address or a path.
    # Relative addresses and HTML stay as they are: later steps convert them for all readers alike.
    try:
        parsed = feedparser.parse(
            BytesIO(part.encode()),
            response_headers={"content-type": "application/xml; charset=utf-8"},
            resolve_relative_uris=False,
            sanitize_html=False,
        )
    except _FEEDPARSER_ERRORS as error:
        raise ParseError(f"The document is too malformed to read ({type(error).__name__}).") from error
    version = dict.get(parsed, "version") or ""
    if not parsed.entries and not (version and parsed.feed.get("title")):
        raise ParseError("This is not a feed of a known format, and not well-formed XML.")
    kept, number = keep_newest((_entry_draft(entry, url) for entry in parsed.entries), limits.entries)
    known: documents.FeedFormat = "rdf" if version in ("rss090", "rss10") else "rss"
    known = "atom" if version.startswith("atom") else known
    return DraftDocument(_feed_draft(parsed.feed, url), kept, max(found, number), known)


def _get(value: Mapping[str, Any], key: str) -> Any:
    """Returns the value under this very name: feedparser's dictionaries substitute others."""
    return dict.get(value, key) if isinstance(value, dict) else None


def _text(value: Mapping[str, Any], key: str) -> str:
    found = _get(value, key)
    return found.strip() if isinstance(found, str) else ""


def _dicts(value: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    found = _get(value, key)
    return [part for part in found if isinstance(part, dict)] if isinstance(found, list) else []


def _words(value: Mapping[str, Any] | None, url: str) -> documents.DraftText:
    if not value:
        return documents.NO_TEXT
    kind: documents.TextKind = "html" if "html" in _text(value, "type") else "unsaid"
    base = _text(value, "base")
    return documents.DraftText(_text(value, "value"), kind, markup.join_base(url, base) if base else None)


def _links(value: Mapping[str, Any], relation: str) -> Iterator[Mapping[str, Any]]:
    return (link for link in _dicts(value, "links") if _text(link, "rel") == relation and _text(link, "href"))


def _link(value: Mapping[str, Any], relation: str) -> str:
    return next((_text(link, "href") for link in _links(value, relation)), "")


def _feed_draft(feed: Mapping[str, Any], url: str) -> documents.FeedDraft:
    draft = documents.FeedDraft(url)
    draft.id = _text(feed, "id")
    draft.link = _text(feed, "link")
    draft.title = _words(_get(feed, "title_detail"), url)
    draft.subtitle = _words(_get(feed, "subtitle_detail"), url)
    draft.updated = normalise.parse_date(_text(feed, "updated") or _text(feed, "published"))
    draft.language = _text(feed, "language")
    draft.rights = _words(_get(feed, "rights_detail"), url)
    draft.image = _text(_get(feed, "image") or {}, "href") or _text(feed, "logo")
    draft.icon = _text(feed, "icon")
    draft.authors = _authors(feed)
    draft.categories = _categories(feed)
    draft.self_link = _link(feed, "self")
    draft.next_link = _link(feed, "next")
    draft.hubs = [_text(link, "href") for link in _links(feed, "hub")]
    cloud, names = _get(feed, "cloud") or {}, ("path", "registerprocedure", "protocol")
    draft.cloud = entries.make_cloud(
        _text(cloud, "domain"), _text(cloud, "port") or "80", *(_text(cloud, name) for name in names)
    )
    draft.ttl_minutes = entries.parse_whole(_text(feed, "ttl"))
    draft.skip_days = entries.parse_days([_text(feed, "day")])
    return draft


def _entry_draft(entry: Mapping[str, Any], url: str) -> documents.EntryDraft:
    draft = documents.EntryDraft(url)
    draft.id = _text(entry, "id")
    draft.link = _text(entry, "link")
    draft.title = _words(_get(entry, "title_detail"), url)
    draft.published = normalise.parse_date(_text(entry, "published") or _text(entry, "created"))
    draft.updated = normalise.parse_date(_text(entry, "updated"))
    contents = _dicts(entry, "content")
    summary = _words(_get(entry, "summary_detail"), url)
    content = _words(contents[0], url) if contents else documents.NO_TEXT
    draft.summary, draft.content = (summary, content) if content.value else (documents.NO_TEXT, summary)
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


def _authors(value: Mapping[str, Any]) -> list[documents.Author]:
    parts = ([_text(author, name) for name in ("name", "email", "href")] for author in _dicts(value, "authors"))
    found = [documents.Author(*part) for part in parts if any(part)]
    return found or [entries.parse_person(text) for text in [_text(value, "author")] if text]


def _categories(value: Mapping[str, Any]) -> list[documents.ParsedCategory]:
    parts = ([_text(tag, name) for name in ("term", "scheme", "label")] for tag in _dicts(value, "tags"))
    return list(dict.fromkeys(documents.ParsedCategory(*part) for part in parts if part[0]))


def _enclosures(entry: Mapping[str, Any]) -> Iterator[documents.Enclosure]:
    seconds = entries.parse_duration(_text(entry, "itunes_duration"))
    for link in _links(entry, "enclosure"):
        length = entries.parse_whole(_text(link, "length"))
        yield documents.Enclosure(_text(link, "href"), _text(link, "type"), length, seconds, _text(link, "title"))
        seconds = None
    for media in _dicts(entry, "media_content"):
        if _text(media, "medium") != "image" and not _text(media, "type").startswith("image/"):
            length = entries.parse_whole(_text(media, "filesize"))
            long = entries.parse_duration(_text(media, "duration"))
            yield documents.Enclosure(_text(media, "url"), _text(media, "type"), length, long)


def _source(value: Mapping[str, Any] | None) -> documents.EntrySource | None:
    if not value:
        return None
    url = _text(value, "href") or _link(value, "self")
    return documents.EntrySource(_text(value, "title"), url, _text(value, "link"))


def _point(value: Mapping[str, Any] | None) -> documents.Point | None:
    found = _get(value or {}, "coordinates")
    return documents.make_point(found[1], found[0]) if isinstance(found, tuple) and len(found) == 2 else None
