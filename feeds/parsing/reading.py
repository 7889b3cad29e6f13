"""Reads feeds: the fast reader first, feedparser where that fails or finds less than there is. PURE.

It takes time and memory by what it is given, within the limits: not for a loop that others wait for.
"""

import re
from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from feeds.errors import ParseError

from . import decoding, jsonfeeds, loose, mending, trees
from .documents import ParsedFeed, Reader
from .finishing import Finishing
from .limits import DEFAULT, Limits

_PAGE = re.compile(r"\s*(?:<!--.{0,2000}?-->\s*)?<(?:!doctype\s+html|html)\b", re.IGNORECASE | re.DOTALL)
_ENTRY = re.compile(r"<(?:[\w.-]+:)?(?:item|entry)[\s>]", re.IGNORECASE)
_QUOTED = re.compile(r"<!\[CDATA\[.*?(?:\]\]>|\Z)|<!--.*?(?:-->|\Z)", re.DOTALL)
_NOTES = {
    "shared_id": "Entries whose id is that of others too, and counts as none: {number}.",
    "twice": "Entries that are there twice, and count once: {number}.",
    "address": "Addresses that are none of the web's, or too long, and were left out: {number}.",
    "cut": "Texts that are too long, and were cut: {number}.",
    "future": "Dates in the future, which count as none: {number}.",
}


def parse(data: bytes, content_type: str, url: str, fetched_at: datetime, limits: Limits = DEFAULT) -> ParsedFeed:
    """The feed in a body that came with this content type from this address (after redirects) at this time.

    Raises ParseError, a sentence, for what is no feed or has more bytes than are read. Whatever else is wrong with
    it is mended, or left out and noted.
    """
    if len(data) > limits.bytes:
        raise ParseError(f"The feed has {len(data):,} bytes, of which at most {limits.bytes:,} are read.")
    if not data.strip(b"\0 \t\r\n"):
        raise ParseError("The feed is empty.")
    text = decoding.decode(data, content_type)
    if text.lstrip("\ufeff \t\r\n")[:1] in ("{", "["):
        return _finished(jsonfeeds.read(text.lstrip("\ufeff"), url, limits.entries), "json", fetched_at, limits)
    return _parse_xml(text, url, fetched_at, limits)


def _parse_xml(text: str, url: str, now: datetime, limits: Limits) -> ParsedFeed:
    if _PAGE.match(text, 0, 5_000):
        raise ParseError("This is a web page, not a feed.")
    document = mending.prepared(text)
    notes = _doctype_notes(document.doctype)
    try:
        return _finished(_read_tree(document.text, url, limits.entries), "tree", now, limits, notes)
    except (trees.NotWellFormed, _Suspicious) as error:
        notes.append(f"It is not as it should be ({error}), and was read as far as it can be made out.")
    mended = mending.mended(document.text)
    try:
        return _finished(_read_tree(mended, url, limits.entries), "tree", now, limits, notes)
    except (trees.NotWellFormed, _Suspicious):
        return _finished(loose.read(mended, url, limits), "feedparser", now, limits, notes)


class _Suspicious(Exception):
    """What was read is less than the document seems to have."""


def _read_tree(text: str, url: str, max_entries: int) -> trees.Read:
    """By the fast reader, when it finds entries where there are some."""
    read = trees.read(text.encode(), url, max_entries)
    if not read.found and _ENTRY.search(text) and _ENTRY.search(_QUOTED.sub("", text)):
        raise _Suspicious("its entries are not where they should be")
    return read


def _finished(read: trees.Read, reader: Reader, now: datetime, limits: Limits, notes: Sequence[str] = ()) -> ParsedFeed:
    finishing = Finishing(limits, now)
    feed = finishing.feed(read.feed)
    entries = finishing.entries(read.entries)
    if read.found > len(read.entries):
        notes = (*notes, f"It has {read.found:,} entries, of which {len(read.entries):,} were read.")
    return ParsedFeed(feed, entries, read.format, reader, read.found, (*notes, *_counted_notes(finishing.counted)))


def _counted_notes(counted: Counter[str]) -> list[str]:
    return [note.format(number=counted[name]) for name, note in _NOTES.items() if counted[name]]


def _doctype_notes(doctype: str) -> list[str]:
    return ["It declares entities of its own, which are not read."] if "<!ENTITY" in doctype else []
