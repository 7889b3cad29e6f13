"""JSON Feed 1.0 and 1.1 (jsonfeed.org), read as leniently as the XML formats. PURE."""

import json
from collections.abc import Mapping
from typing import Any

from feeds.errors import ParseError

from . import dates
from .documents import Author, Category, Enclosure, Point, Source
from .drafts import NOTHING, EntryDraft, FeedDraft, Words
from .newest import newest
from .trees import Read

EXTENSION = "_tarry"
"""Where this site's own output has what JSON Feed has no field for."""


def read(text: str, url: str, max_entries: int) -> Read:
    """Reads a document. Raises ParseError for what is no JSON, or JSON and no feed."""
    try:
        document = json.loads(text, parse_int=_whole, parse_constant=lambda _: None)
    except (ValueError, RecursionError) as error:
        raise ParseError(f"This looks like JSON Feed, but is not JSON: {error}.") from error
    if not isinstance(document, dict) or not isinstance(document.get("items"), list):
        raise ParseError("This is JSON, but not JSON Feed: it has no list of items.")
    items = (_entry(item, url) for item in document["items"] if isinstance(item, dict))
    kept, found = newest(items, max_entries)
    return Read(_feed(document, url), kept, found, "json")


def _feed(document: Mapping[str, Any], url: str) -> FeedDraft:
    draft = FeedDraft(url)
    own = _mapping(document, EXTENSION)
    draft.id = _text(own, "id")
    draft.link = _text(document, "home_page_url")
    draft.title = Words(_text(document, "title"))
    draft.subtitle = Words(_text(document, "description"))
    draft.updated = dates.parse(_text(own, "updated"))
    draft.language = _text(document, "language")
    draft.rights = Words(_text(own, "rights"))
    draft.image = _text(document, "icon") or _text(document, "favicon")
    draft.authors = _authors(document)
    draft.categories = [_category(category) for category in _mappings(own, "categories")]
    draft.self_link = _text(document, "feed_url")
    draft.next_link = _text(document, "next_url")
    draft.hubs = [_text(hub, "url") for hub in _mappings(document, "hubs") if _text(hub, "type").lower() == "websub"]
    return draft


def _entry(item: Mapping[str, Any], url: str) -> EntryDraft:
    draft = EntryDraft(url)
    own = _mapping(item, EXTENSION)
    draft.id = _text(item, "id")
    draft.link = _text(item, "url") or _text(item, "external_url")
    draft.title = Words(_text(item, "title"))
    draft.published = dates.parse(_text(item, "date_published"))
    draft.updated = dates.parse(_text(item, "date_modified"))
    markup = _text(own, "summary_html")
    draft.summary = Words(markup, "html") if markup else Words(_text(item, "summary"))
    draft.content = Words(_text(item, "content_html"), "html")
    if not draft.content.value:
        draft.content = Words(_text(item, "content_text"))
    if not draft.content.value:
        draft.content, draft.summary = draft.summary, NOTHING
    draft.authors = _authors(item)
    draft.categories = _categories(item, own)
    draft.enclosures = [_enclosure(attachment) for attachment in _mappings(item, "attachments")]
    draft.image = _text(item, "image") or _text(item, "banner_image")
    draft.comments = _text(own, "comments")
    draft.language = _text(item, "language")
    draft.source = _source(own)
    draft.point = _point(own)
    return draft


def _authors(item: Mapping[str, Any]) -> list[Author]:
    """Version 1.1 has a list of them, 1.0 one."""
    found = _mappings(item, "authors") or _mappings({"author": [item.get("author")]}, "author")
    return [
        Author(_text(author, "name"), _text(_mapping(author, EXTENSION), "email"), _text(author, "url"))
        for author in found
    ]


def _categories(item: Mapping[str, Any], own: Mapping[str, Any]) -> list[Category]:
    full = [_category(category) for category in _mappings(own, "categories")]
    tags = item.get("tags")
    plain = [tag.strip() for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []
    return list(dict.fromkeys(full or [Category(tag) for tag in plain if tag]))


def _category(value: Mapping[str, Any]) -> Category:
    return Category(_text(value, "term"), _text(value, "scheme"), _text(value, "label"))


def _enclosure(value: Mapping[str, Any]) -> Enclosure:
    return Enclosure(
        _text(value, "url"),
        _text(value, "mime_type"),
        _positive(value.get("size_in_bytes")),
        _positive(value.get("duration_in_seconds")),
        _text(value, "title"),
    )


def _source(own: Mapping[str, Any]) -> Source | None:
    value = _mapping(own, "source")
    return Source(_text(value, "title"), _text(value, "url"), _text(value, "link")) if value else None


def _point(own: Mapping[str, Any]) -> Point | None:
    value = _mapping(own, "point")
    latitude, longitude = value.get("latitude"), value.get("longitude")
    if not isinstance(latitude, int | float) or not isinstance(longitude, int | float):
        return None
    return Point(float(latitude), float(longitude)) if abs(latitude) <= 90 and abs(longitude) <= 180 else None


def _text(value: Mapping[str, Any], key: str) -> str:
    """A text; numbers count as such, which version 1.1 asks of ids."""
    found = value.get(key)
    if isinstance(found, str):
        # JSON can hold halves of characters and controls that no output could.
        return "".join(c for c in found.strip() if c >= " " or c in "\t\n\r").encode("utf-8", "replace").decode()
    return str(found) if isinstance(found, int | float) and not isinstance(found, bool) else ""


def _mapping(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = value.get(key)
    return found if isinstance(found, dict) else {}


def _mappings(value: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    found = value.get(key)
    return [part for part in found if isinstance(part, dict)] if isinstance(found, list) else []


def _positive(value: object) -> int | None:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < 1e15:
        return None
    return int(value) or None


def _whole(digits: str) -> int | str:
    """Numbers beyond all sense stay texts: Python refuses to read them, or takes long."""
    return int(digits) if len(digits) <= 30 else digits
