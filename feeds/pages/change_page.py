"""Describes entries and changes for programs: as the API, the stream and webhooks give them."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ..change_rows import Removal
from ..changes.log import ChangePage
from ..models import Entry, Feed
from ..output.output_page import FeedOrigin
from ..parser.documents import ParsedEntry
from . import page_entries

_ENTRY_FIELDS = ("id", "link", "title", "published", "updated", "summary", "content")
_ENCLOSURE_FIELDS = ("url", "media_type", "length_bytes", "seconds", "title")


def describe_entry(row: Entry, origin: FeedOrigin) -> dict[str, Any]:
    """Describes an entry, without secrets, under an id that no entry of another feed has."""
    return describe_read(row, page_entries.load_entry(row, origin, among_feeds=True), origin)


def describe_read(row: Entry, entry: ParsedEntry, origin: FeedOrigin) -> dict[str, Any]:
    """Describes an entry that was read from its row."""
    return {
        **{name: getattr(entry, name) for name in _ENTRY_FIELDS},
        "authors": [author.name or author.email or author.url for author in entry.authors],
        "categories": [category.label or category.term for category in entry.categories],
        "language": entry.language or origin.head.language,
        "enclosures": [{name: getattr(one, name) for name in _ENCLOSURE_FIELDS} for one in entry.enclosures],
        "happened_at": row.happened_at,
        "changed_at": row.changed_at,
    }


def describe_changes(page: ChangePage) -> dict[str, Any]:
    """Describes a page of the change log. Raises DatabaseError."""
    feeds = {row.feed_id for row in page.changes if isinstance(row, Entry)}
    origins = page_entries.find_all_origins(feeds)
    slugs = dict(Feed.objects.filter(pk__in=feeds).values_list("pk", "slug"))
    found = [_describe_change(row, origins, slugs) for row in page.changes]
    changes = [each for each in found if each is not None]  # None: its feed was deleted meanwhile
    return {"changes": changes, "cursor": str(page.cursor), "has_more": page.has_more}


def write_json(described: Any) -> str:
    return json.dumps(described, default=_write_time, ensure_ascii=False, separators=(",", ":"))


def _write_time(at: object) -> str:
    assert isinstance(at, datetime)
    return at.isoformat().replace("+00:00", "Z")


def _describe_change(
    row: Entry | Removal, origins: Mapping[int, FeedOrigin], slugs: Mapping[int, str]
) -> dict[str, Any] | None:
    if isinstance(row, Removal):
        gone = {"feed_id": row.feed_number, "reason": row.reason}
        if row.entry_number is None:
            return {"change": "feed_removed", **gone}
        return {"change": "entry_removed", "entry_id": row.entry_number, **gone}
    origin, slug = origins.get(row.feed_id), slugs.get(row.feed_id)
    if origin is None or slug is None:
        return None
    named = {"change": "entry", "entry_id": row.pk, "feed_id": row.feed_id, "feed": slug, "story": row.story or row.pk}
    return {**named, "entry": describe_entry(row, origin)}
