"""Reads feeds: the fast reader first, feedparser if that fails or finds too few entries.

Time and memory grow with the document, within the limits: do not call it in an event loop.
"""

import re
from collections.abc import Sequence
from datetime import datetime

from ..errors import ParseError
from . import charset, fallback, json_reader, xml_reader
from .documents import DEFAULT_LIMITS, FeedLimits, ParsedFeed, ReaderName
from .normalise import Normaliser

_WEB_PAGE = re.compile(r"\s*(?:<!--.{0,2000}?-->\s*)?<(?:!doctype\s+html|html)\b", re.IGNORECASE | re.DOTALL)
_ENTRY = re.compile(r"<(?:[\w.-]+:)?(?:item|entry)[\s>]", re.IGNORECASE)
_QUOTED = re.compile(r"<!\[CDATA\[.*?(?:\]\]>|\Z)|<!--.*?(?:-->|\Z)", re.DOTALL)
_NOTES = {
    "shared_id": "Entries with the id of another entry, which is ignored: {number}.",
    "twice": "Duplicate entries: {number}.",
    "address": "Addresses left out, not http(s) or too long: {number}.",
    "cut": "Texts cut to the size limit: {number}.",
    "future": "Dates in the future, ignored: {number}.",
}


def parse_feed(
    data: bytes, content_type: str, url: str, fetched_at: datetime, limits: FeedLimits = DEFAULT_LIMITS
) -> ParsedFeed:
    """Parses a body with this content type that came from this address (after redirects) at this time.

    Raises ParseError with a sentence if it is no feed or has too many bytes. Any other fault is mended, or left out and
    noted.
    """
    if len(data) > limits.bytes:
        raise ParseError(f"The feed has {len(data):,} bytes, of which at most {limits.bytes:,} are read.")
    if not data.strip(b"\0 \t\r\n"):
        raise ParseError("The feed is empty.")
    text = charset.decode_document(data, content_type)
    if text.lstrip("\ufeff \t\r\n")[:1] in ("{", "["):
        read = json_reader.read_json_feed(text.lstrip("\ufeff"), url, limits.entries)
        return _finish_feed(read, "json", fetched_at, limits)
    return _parse_xml(text, url, fetched_at, limits)


def _parse_xml(text: str, url: str, now: datetime, limits: FeedLimits) -> ParsedFeed:
    if _WEB_PAGE.match(text, 0, 5_000):
        raise ParseError("This is a web page, not a feed.")
    text, doctype = charset.prepare_xml(text)
    notes = ["Entity declarations are ignored."] if "<!ENTITY" in doctype else []
    try:
        return _finish_feed(_read_tree(text, url, limits.entries), "tree", now, limits, notes)
    except (xml_reader.NotWellFormed, _Suspicious) as error:
        notes.append(f"Malformed ({error}), read as far as possible.")
    mended = charset.mend_xml(text)
    try:
        return _finish_feed(_read_tree(mended, url, limits.entries), "tree", now, limits, notes)
    except (xml_reader.NotWellFormed, _Suspicious):
        return _finish_feed(fallback.read_loosely(mended, url, limits), "feedparser", now, limits, notes)


class _Suspicious(Exception):
    """The reader found less than the document seems to have."""


def _read_tree(text: str, url: str, max_entries: int) -> xml_reader.DraftDocument:
    """Reads with the fast reader. Raises _Suspicious if it finds no entries where there are some."""
    read = xml_reader.read_xml_feed(text.encode(), url, max_entries)
    if not read.found and _ENTRY.search(text) and _ENTRY.search(_QUOTED.sub("", text)):
        raise _Suspicious("entries in the wrong place")
    return read


def _finish_feed(
    read: xml_reader.DraftDocument, reader: ReaderName, now: datetime, limits: FeedLimits, notes: Sequence[str] = ()
) -> ParsedFeed:
    finishing = Normaliser(limits, now)
    feed = finishing.feed(read.feed)
    entries = finishing.entries(read.entries)
    if read.found > len(read.entries):
        notes = (*notes, f"{len(read.entries):,} of {read.found:,} entries were read.")
    counted = (note.format(number=number) for name, note in _NOTES.items() if (number := finishing.counted[name]))
    return ParsedFeed(feed, entries, read.format, reader, read.found, (*notes, *counted))
