"""Renders JSON Feed 1.1 (jsonfeed.org). PURE."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from feeds.parsing import sanitising
from feeds.parsing.documents import Author, Category, Enclosure, Entry
from feeds.parsing.jsonfeeds import EXTENSION

from .pages import Page, timestamp

MEDIA_TYPE = "application/feed+json"
VERSION = "https://jsonfeed.org/version/1.1"
_UNKNOWN_TYPE = "application/octet-stream"


def render(page: Page) -> bytes:
    """The document, in UTF-8. What JSON Feed has no field for is in an extension (`_tarry`)."""
    feed = page.feed
    own = {"id": feed.id, "updated": timestamp(feed.updated or page.updated), "rights": feed.rights}
    document = {
        "version": VERSION,
        "title": feed.title,
        "home_page_url": feed.link,
        "feed_url": page.address,
        "description": feed.subtitle,
        "next_url": page.next_address,
        "icon": feed.image,
        "language": feed.language,
        "authors": [_author(author) for author in feed.authors],
        "hubs": [{"type": "WebSub", "url": hub} for hub in page.hubs],
        EXTENSION: _said({**own, "categories": _full(feed.categories)}),
        "items": [_item(page, entry) for entry in page.entries],
    }
    return json.dumps({**_said(document), "title": feed.title, "items": document["items"]}, ensure_ascii=False).encode()


def _said(document: Mapping[str, Any]) -> dict[str, Any]:
    """Without what is empty: JSON Feed has readers take a field that is there at its word."""
    return {key: value for key, value in document.items() if value not in ("", None, [], {})}


def _item(page: Page, entry: Entry) -> dict[str, Any]:
    summary = sanitising.text_of(entry.summary)
    own = {
        "summary_html": entry.summary if sanitising.escaped(summary) != entry.summary else "",
        "categories": _full(entry.categories),
        "comments": entry.comments,
        "source": _said(asdict(entry.source)) if entry.source else None,
        "point": asdict(entry.point) if entry.point else None,
    }
    item = {
        "id": page.unique_id(entry),
        "url": entry.link,
        "title": entry.title,
        "summary": summary,
        "image": entry.image,
        "date_published": timestamp(entry.published) if entry.published else "",
        "date_modified": timestamp(page.moment(entry)) if entry.updated or not entry.published else "",
        "language": entry.language,
        "authors": [_author(author) for author in entry.authors],
        "tags": [category.term for category in entry.categories],
        "attachments": [_attachment(enclosure) for enclosure in entry.enclosures],
        EXTENSION: _said(own),
    }
    return {**_said(item), "content_html": entry.content}


def _author(author: Author) -> dict[str, Any]:
    """JSON Feed asks for a name or an address; who has neither is shown by the mail address."""
    own = {"email": author.email} if author.email else {}
    name = author.name if author.name or author.url else author.email
    return _said({"name": name, "url": author.url, EXTENSION: own})


def _full(categories: Sequence[Category]) -> list[dict[str, str]]:
    """All that is known of them, where their terms are not all."""
    if not any(category.scheme or category.label for category in categories):
        return []
    return [_said(asdict(category)) for category in categories]


def _attachment(enclosure: Enclosure) -> dict[str, Any]:
    return _said(
        {
            "url": enclosure.url,
            "mime_type": enclosure.media_type or _UNKNOWN_TYPE,
            "title": enclosure.title,
            "size_in_bytes": enclosure.length_bytes,
            "duration_in_seconds": enclosure.seconds,
        }
    )
