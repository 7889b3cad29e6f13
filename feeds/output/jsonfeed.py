"""Renders JSON Feed 1.1 (jsonfeed.org)."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ..parser import markup
from ..parser.documents import JSON_EXTENSION, Author, Enclosure, ParsedCategory, ParsedEntry
from . import output_page
from .output_page import OutputPage, format_timestamp

MEDIA_TYPE = "application/feed+json"
JSON_FEED_VERSION = "https://jsonfeed.org/version/1.1"
_UNKNOWN_TYPE = "application/octet-stream"


def render(page: OutputPage) -> bytes:
    """Returns the document, in UTF-8. Values without a field in JSON Feed are in an extension (`_tarry`)."""
    feed = output_page.present_head(page.feed)
    own = {"id": feed.id, "updated": format_timestamp(feed.updated or page.updated), "rights": feed.rights}
    document = {
        "version": JSON_FEED_VERSION,
        "title": feed.title,
        "home_page_url": feed.link,
        "feed_url": page.address,
        "description": feed.subtitle,
        "next_url": page.next_address,
        "icon": feed.image,
        "favicon": feed.icon,
        "language": feed.language,
        "authors": [_author_object(author) for author in feed.authors],
        "hubs": [{"type": kind, "url": hub} for kind, hub in _typed_hubs(page)],
        JSON_EXTENSION: _without_empty({**own, "categories": _full_categories(feed.categories)}),
        "items": [_entry_item(page, entry) for entry in page.entries],
    }
    required = {"title": feed.title, "items": document["items"]}
    return json.dumps({**_without_empty(document), **required}, ensure_ascii=False).encode()


def _typed_hubs(page: OutputPage) -> list[tuple[str, str]]:
    return [*(("WebSub", hub) for hub in page.hubs), *([("rssCloud", page.cloud)] if page.cloud else [])]


def _without_empty(document: Mapping[str, Any]) -> dict[str, Any]:
    """Removes empty values: JSON Feed has readers take a field that is there at its word."""
    return {key: value for key, value in document.items() if value not in ("", None, [], {})}


def _entry_item(page: OutputPage, entry: ParsedEntry) -> dict[str, Any]:
    own_id, entry = page.unique_id(entry), output_page.present_entry(entry)
    summary = markup.html_to_text(entry.summary)
    own = {
        "summary_html": entry.summary if markup.escape_text(summary) != entry.summary else "",
        "categories": _full_categories(entry.categories),
        "comments": entry.comments,
        "source": _without_empty(asdict(entry.source)) if entry.source else None,
        "point": asdict(entry.point) if entry.point else None,
        **_episode_objects(entry),
        "also_in": [
            {"title": each.title, "url": output_page.encode_address(each.link)}
            for each in page.also_in.get(entry.id, ())
        ],
    }
    item = {
        "id": own_id,
        "url": entry.link,
        "title": entry.title,
        "summary": summary,
        "image": entry.image,
        "date_published": format_timestamp(entry.published) if entry.published else "",
        "date_modified": format_timestamp(page.moment(entry)) if entry.updated or not entry.published else "",
        "language": entry.language,
        "authors": [_author_object(author) for author in entry.authors],
        "tags": [category.term for category in entry.categories],
        "attachments": [_attachment_object(enclosure) for enclosure in entry.enclosures],
        JSON_EXTENSION: _without_empty(own),
    }
    return {**_without_empty(item), "content_html": entry.content}


def _episode_objects(entry: ParsedEntry) -> dict[str, Any]:
    """Chapters are written as files of chapters have them (Podcasting 2.0)."""
    return {
        "season": entry.season,
        "episode": entry.episode,
        "chapters": [
            {"startTime": each.start, **_without_empty({"title": each.title, "url": each.url, "img": each.image})}
            for each in entry.chapters
        ],
        "chapters_url": entry.chapters_url,
        "transcripts": [_without_empty(asdict(each)) for each in entry.transcripts],
        "youtube": entry.youtube,
    }


def _author_object(author: Author) -> dict[str, Any]:
    """JSON Feed asks for a name or an address; an author with neither is shown by the mail address."""
    own = {"email": author.email} if author.email else {}
    name = author.name if author.name or author.url else author.email
    return _without_empty({"name": name, "url": author.url, JSON_EXTENSION: own})


def _full_categories(categories: Sequence[ParsedCategory]) -> list[dict[str, str]]:
    """Returns the categories with scheme and label; empty if they only have terms."""
    if not any(category.scheme or category.label for category in categories):
        return []
    return [_without_empty(asdict(category)) for category in categories]


def _attachment_object(enclosure: Enclosure) -> dict[str, Any]:
    media_type, seconds = enclosure.media_type or _UNKNOWN_TYPE, enclosure.seconds
    named = {"url": enclosure.url, "mime_type": media_type, "title": enclosure.title}
    return _without_empty({**named, "size_in_bytes": enclosure.length_bytes, "duration_in_seconds": seconds})
