"""Feeds of our own, by hand: every format, namespace, encoding and mistake that is read."""

from datetime import UTC, datetime
from pathlib import Path

from feeds.parser import reader
from feeds.parser.documents import DEFAULT_LIMITS, FeedLimits, ParsedEntry, ParsedFeed

DIRECTORY = Path(__file__).parent / "corpus"
NAMES = sorted(path.name for path in DIRECTORY.iterdir())
XML_NAMES = [name for name in NAMES if not name.endswith(".json")]
URL = "https://feeds.example.org/blog/feed.xml"
FETCHED_AT = datetime(2021, 7, 1, 12, tzinfo=UTC)


def content_type(name: str) -> str:
    return "application/xml; charset=windows-1251" if name == "charset-by-server.xml" else "application/xml"


def data(name: str) -> bytes:
    return (DIRECTORY / name).read_bytes()


def parsed(name: str, limits: FeedLimits = DEFAULT_LIMITS) -> ParsedFeed:
    return reader.parse_feed(data(name), content_type(name), URL, FETCHED_AT, limits)


def read(text: str, limits: FeedLimits = DEFAULT_LIMITS) -> ParsedFeed:
    return reader.parse_feed(text.encode(), "", URL, FETCHED_AT, limits)


def entry_of(item: str) -> ParsedEntry:
    """The entry of an item of RSS, its namespaces declared."""
    head = '<rss version="2.0" xmlns:media="http://search.yahoo.com/mrss/"><channel><title>T</title>'
    return read(f"{head}<item>{item}</item></channel></rss>").entries[0]
