"""Reads documents as feed readers do, and is stricter."""

import json
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import feedparser
import jsonschema_rs

_SCHEMA = json.loads((Path(__file__).parent.parent / "rendering" / "jsonfeed-1.1.schema.json").read_text())
MEDIA_TYPES = {
    "atom": "application/atom+xml; charset=utf-8",
    "rss": "application/rss+xml; charset=utf-8",
    "json": "application/feed+json",
}


@dataclass(frozen=True, slots=True)
class Read:
    """What a page says."""

    title: str
    titles: list[str]
    ids: list[str]
    links: dict[str, str]


def read(document: bytes, format_name: str) -> Read:
    """Raises AssertionError or ValidationError for what is not valid."""
    return _json(document) if format_name == "json" else _xml(document, MEDIA_TYPES[format_name])


def _xml(document: bytes, media_type: str) -> Read:
    parsed: Any = feedparser.parse(BytesIO(document), response_headers={"content-type": media_type})
    assert not parsed.bozo, parsed.get("bozo_exception")
    return Read(
        title=parsed.feed.title,
        titles=[entry.get("title", "") for entry in parsed.entries],
        ids=[dict.get(entry, "id", "") for entry in parsed.entries],
        links={link.rel: link.href for link in parsed.feed.links},
    )


def _json(document: bytes) -> Read:
    parsed = json.loads(document)
    jsonschema_rs.validate(_SCHEMA, parsed, validate_formats=True)
    links = {
        "self": parsed["feed_url"],
        "next": parsed.get("next_url", ""),
        "alternate": parsed.get("home_page_url", ""),
    }
    return Read(
        title=parsed["title"],
        titles=[item.get("title", "") for item in parsed["items"]],
        ids=[item["id"] for item in parsed["items"]],
        links={name: link for name, link in links.items() if link},
    )
