"""Reads JSON Feed 1.0 and 1.1 (jsonfeed.org), as leniently as the XML formats."""

import json
from collections.abc import Mapping
from typing import Any

from ..errors import ParseError
from . import documents, entries, normalise, podcast
from .xml_reader import DraftDocument, keep_newest


def read_json_feed(text: str, url: str, max_entries: int) -> DraftDocument:
    """Reads a document. Raises ParseError if it is not JSON, or JSON but no feed."""
    try:
        document = json.loads(text, parse_int=_parse_integer, parse_constant=lambda _: None)
    except (ValueError, RecursionError) as error:
        raise ParseError(f"This looks like JSON Feed, but is not JSON: {error}.") from error
    if not isinstance(document, dict) or not isinstance(document.get("items"), list):
        raise ParseError("This is JSON, but not JSON Feed: it has no list of items.")
    items = (_entry_draft(item, url) for item in document["items"] if isinstance(item, dict))
    kept, found = keep_newest(items, max_entries)
    return DraftDocument(_feed_draft(document, url), kept, found, "json")


def _feed_draft(document: Mapping[str, Any], url: str) -> documents.FeedDraft:
    draft = documents.FeedDraft(url)
    own = _mapping(document, documents.JSON_EXTENSION)
    draft.id = _text(own, "id")
    draft.link = _text(document, "home_page_url")
    draft.title = documents.DraftText(_text(document, "title"))
    draft.subtitle = documents.DraftText(_text(document, "description"))
    draft.updated = normalise.parse_date(_text(own, "updated"))
    draft.language = _text(document, "language")
    draft.rights = documents.DraftText(_text(own, "rights"))
    draft.image = _text(document, "icon")
    draft.icon = _text(document, "favicon")
    draft.authors = _authors(document)
    draft.categories = [_category(category) for category in _mappings(own, "categories")]
    draft.self_link = _text(document, "feed_url")
    draft.next_link = _text(document, "next_url")
    draft.hubs = [_text(hub, "url") for hub in _mappings(document, "hubs") if _text(hub, "type").lower() == "websub"]
    return draft


def _entry_draft(item: Mapping[str, Any], url: str) -> documents.EntryDraft:
    draft = documents.EntryDraft(url)
    own = _mapping(item, documents.JSON_EXTENSION)
    draft.id = _text(item, "id")
    draft.link = _text(item, "url") or _text(item, "external_url") or entries.link_of_id(draft.id)
    draft.title = documents.DraftText(_text(item, "title"))
    draft.published = normalise.parse_date(_text(item, "date_published"))
    draft.updated = normalise.parse_date(_text(item, "date_modified"))
    markup = _text(own, "summary_html")
    draft.summary = documents.DraftText(markup, "html") if markup else documents.DraftText(_text(item, "summary"))
    draft.content = documents.DraftText(_text(item, "content_html"), "html")
    if not draft.content.value:
        draft.content = documents.DraftText(_text(item, "content_text"))
    if not draft.content.value:
        draft.content, draft.summary = draft.summary, documents.NO_TEXT
    draft.authors = _authors(item)
    draft.categories = _categories(item, own)
    draft.enclosures = [_enclosure(attachment) for attachment in _mappings(item, "attachments")]
    draft.image = _text(item, "image") or _text(item, "banner_image")
    draft.comments = _text(own, "comments")
    draft.language = _text(item, "language")
    if source := _mapping(own, "source"):
        draft.source = documents.EntrySource(*(_text(source, name) for name in ("title", "url", "link")))
    _read_episode(draft, own)
    point = _mapping(own, "point")
    draft.point = documents.make_point(point.get("latitude"), point.get("longitude"))
    return draft


def _read_episode(draft: documents.EntryDraft, own: Mapping[str, Any]) -> None:
    draft.season, draft.episode = _positive(own.get("season")), _positive(own.get("episode"))
    draft.chapters = podcast.read_chapter_objects(_mappings(own, "chapters"))
    draft.chapters_url = _text(own, "chapters_url")
    names = ("url", "media_type", "language")
    draft.transcripts = [
        documents.Transcript(*(_text(each, name) for name in names)) for each in _mappings(own, "transcripts")
    ]
    draft.youtube = podcast.checked_video_id(_text(own, "youtube"))


def _authors(item: Mapping[str, Any]) -> list[documents.Author]:
    """Returns the authors: version 1.1 has a list of them, 1.0 one."""
    found = _mappings(item, "authors") or _mappings({"author": [item.get("author")]}, "author")
    emails = [_text(_mapping(author, documents.JSON_EXTENSION), "email") for author in found]
    return [
        documents.Author(_text(author, "name"), email, _text(author, "url"))
        for author, email in zip(found, emails, strict=True)
    ]


def _categories(item: Mapping[str, Any], own: Mapping[str, Any]) -> list[documents.ParsedCategory]:
    full = [_category(category) for category in _mappings(own, "categories")]
    tags = item.get("tags")
    plain = [tag.strip() for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []
    return list(dict.fromkeys(full or [documents.ParsedCategory(tag) for tag in plain if tag]))


def _category(value: Mapping[str, Any]) -> documents.ParsedCategory:
    return documents.ParsedCategory(_text(value, "term"), _text(value, "scheme"), _text(value, "label"))


def _enclosure(value: Mapping[str, Any]) -> documents.Enclosure:
    return documents.Enclosure(
        _text(value, "url"),
        _text(value, "mime_type"),
        _positive(value.get("size_in_bytes")),
        _positive(value.get("duration_in_seconds")),
        _text(value, "title"),
    )


def _text(value: Mapping[str, Any], key: str) -> str:
    """Returns a text; numbers count as such, which version 1.1 asks of ids."""
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


def _parse_integer(digits: str) -> int | str:
    """Returns a number; one with too many digits stays a text: Python refuses to read it, or takes long."""
    return int(digits) if len(digits) <= 30 else digits
