"""Pages to render, and a reader of rendered documents, stricter than feed readers."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import feedparser
import jsonschema_rs

from feeds.output import atom, jsonfeed, rss
from feeds.output.output_page import OutputPage
from feeds.parser import documents, reader

ADDRESS = "https://tarry.example.org/feeds/all.feed"
NOW = datetime(2021, 7, 1, 12, tzinfo=UTC)
RENDERERS = {"atom": atom, "rss": rss, "json": jsonfeed}

FULL = documents.ParsedEntry(
    id="tag:site.example.org,2021:1",
    link="https://site.example.org/1?a=1&b=2",
    title='Everything <there> is & "more"',
    published=datetime(2021, 6, 1, 10, 0, 0, 250_000, tzinfo=UTC),
    updated=datetime(2021, 6, 2, 10, tzinfo=UTC),
    summary="A <em>short</em> summary &amp; ]]&gt;",
    content='<p>A <a href="https://site.example.org/?x=1&amp;y=2" rel="noopener noreferrer nofollow">link</a>.</p>',
    authors=(
        documents.Author("Ann"),
        documents.Author("Bob", "bob@site.example.org", "https://site.example.org/bob"),
        documents.Author("", "", "https://site.example.org/nameless"),
        documents.Author("", "nameless@site.example.org"),
    ),
    categories=(
        documents.ParsedCategory("sea"),
        documents.ParsedCategory("ship", "https://site.example.org/tags", "Ships & boats"),
    ),
    enclosures=(
        documents.Enclosure("https://site.example.org/1.mp3", "audio/mpeg", 1234, 65, "As MP3"),
        documents.Enclosure("https://site.example.org/1.bin"),
        documents.Enclosure("https://site.example.org/1.png", "image/png", 99, None, "The cover"),
    ),
    image="https://site.example.org/1.jpg",
    comments="https://site.example.org/1#comments",
    language="de",
    source=documents.EntrySource("The site", "https://site.example.org/feed", "https://site.example.org/"),
    point=documents.Point(51.5, -0.125),
)
PLAIN = documents.ParsedEntry(
    id="https://site.example.org/2", link="https://site.example.org/2", title="Plain", published=NOW, content="<p>x</p>"
)
UPDATED_ONLY = documents.ParsedEntry(id="urn:x:3", title="日本 – ü 🎈", updated=NOW, content="🎈")
FEED = documents.FeedHead(
    id="tag:site.example.org,2021:feed",
    link="https://site.example.org/",
    title="All & everything",
    subtitle="From <everywhere>",
    updated=datetime(2021, 6, 30, tzinfo=UTC),
    language="en",
    rights="CC BY",
    image="https://site.example.org/logo.png",
    authors=(documents.Author("Ann", "ann@site.example.org", "https://site.example.org/ann"),),
    categories=(documents.ParsedCategory("news", "https://site.example.org/tags", "News"),),
    self_link=ADDRESS,
    next_link=f"{ADDRESS}?page=3",
    hubs=("https://hub.example.org/",),
)


def page(*entries: documents.ParsedEntry, feed: documents.FeedHead = FEED) -> OutputPage:
    """A page in the middle of several."""
    return OutputPage(
        feed=feed,
        entries=entries,
        address=ADDRESS,
        updated=NOW,
        first_address=f"{ADDRESS}?page=1",
        previous_address=f"{ADDRESS}?page=1",
        next_address=f"{ADDRESS}?page=3",
        hubs=("https://hub.example.org/",),
    )


def read_back(document: bytes) -> documents.ParsedFeed:
    return reader.parse_feed(document, "", ADDRESS, NOW)


_SCHEMA = json.loads((Path(__file__).parent / "jsonfeed-1.1.schema.json").read_text())
MEDIA_TYPES = {
    "atom": "application/atom+xml; charset=utf-8",
    "rss": "application/rss+xml; charset=utf-8",
    "json": "application/feed+json",
}


@dataclass(frozen=True, slots=True)
class Read:
    """The contents of a page."""

    title: str
    titles: list[str]
    ids: list[str]
    links: dict[str, str]


def read(document: bytes, format_name: str) -> Read:
    """Raises AssertionError or ValidationError for invalid output."""
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
