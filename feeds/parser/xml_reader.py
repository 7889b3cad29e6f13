"""Reads well-formed feeds, of every XML format, entry by entry, and keeps the newest.

The tree never holds more than one entry: memory grows with the kept entries, not with the document.
"""

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BytesIO

from lxml import etree

from ..errors import ParseError
from . import entries, xml
from .documents import EntryDraft, FeedDraft, FeedFormat
from .xml import XmlNode

_NEVER = datetime(1, 1, 1, tzinfo=UTC)


def keep_newest(drafts: Iterable[EntryDraft], number: int) -> tuple[list[EntryDraft], int]:
    """Keeps so many entries, those with the latest dates, in the order they came in; and counts all that came.

    Entries without a date go first, and of equals those that came later: feeds begin with their newest entries.
    """
    kept: list[tuple[datetime, int, EntryDraft]] = []
    found = 0
    for found, draft in enumerate(drafts, start=1):
        item = (draft.moment or _NEVER, -found, draft)
        if len(kept) < number:
            heapq.heappush(kept, item)
        else:
            heapq.heappushpop(kept, item)
    return [draft for _, _, draft in sorted(kept, key=lambda item: -item[1])], found


_ITEMS = ("item", "atom:entry", "entry")
_FORMATS: dict[str, FeedFormat] = {
    "rss": "rss",
    "channel": "rss",
    "rdf:rdf": "rdf",
    "atom:feed": "atom",
    "atom:entry": "atom",
}
_OTHER_DOCUMENTS = {
    "html": "a web page",
    "opml": "a list of feeds (OPML)",
    "urlset": "a sitemap",
    "sitemapindex": "a sitemap",
    "svg": "a picture",
}


class NotWellFormed(Exception):
    """The document breaks the rules of XML. The message says where."""


@dataclass(frozen=True, slots=True)
class DraftDocument:
    """A reader's result: drafts, and the number of entries found."""

    feed: FeedDraft
    entries: list[EntryDraft]
    found: int
    format: FeedFormat


def read_xml_feed(data: bytes, url: str, max_entries: int) -> DraftDocument:
    """Reads a document in UTF-8, without a DOCTYPE.

    Raises NotWellFormed, and ParseError for a well-formed document that is no feed.
    """
    # No huge_tree: libxml2's own limits on depth (256) and on the length of a text (10 MB) hold.
    events = etree.iterparse(
        BytesIO(data),
        events=("start", "end"),
        tag=("{*}item", "{*}entry"),
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        remove_comments=True,
        remove_pis=True,
        huge_tree=False,
        encoding="utf-8",
    )
    items = _EntryDrafts(events, url, has_bases=b"xml:base" in data)
    try:
        kept, found = keep_newest(items, max_entries)
    except etree.XMLSyntaxError as error:
        raise NotWellFormed(f"{error.msg}") from error
    root, known = items.root()
    return DraftDocument(_read_head(root), kept, found, known)


def _read_head(root: XmlNode) -> FeedDraft:
    """Reads the feed around the entries. Of an entry that is the whole document (RFC 4287, 2) that is its source."""
    if root.name(root.element.tag) == "atom:entry":
        return next(
            (entries.read_feed_head(source, root) for source in root.nodes("atom:source")), FeedDraft(root.base)
        )
    return entries.read_feed_head(next(root.nodes("channel"), root), root)


class _EntryDrafts:
    """Yields the entries of a document as they end, and then knows its root."""

    def __init__(self, events: "etree.iterparse[tuple[str, etree._Element]]", url: str, *, has_bases: bool) -> None:
        self._events = events
        self._url = url
        self._has_bases = has_bases

    def __iter__(self) -> Iterator[EntryDraft]:
        name, previous, depth = None, None, 0
        for event, element in self._events:
            name = name or xml.make_namer(element.getroottree().getroot().tag)
            depth += 1 if event == "start" else -1
            # Entries inside entries are quoted from elsewhere: they are removed with the outer one.
            if event == "end" and depth == 0 and name(element.tag) in _ITEMS:
                yield entries.read_entry(XmlNode(element, name, self._url, self._has_bases))
                if element.getparent() is not None:
                    element.clear(keep_tail=False)
                _drop_element(previous)
                previous = element

    def root(self) -> tuple[XmlNode, FeedFormat]:
        element = self._events.root
        name = xml.make_namer(element.tag)
        known = _FORMATS.get(name(element.tag))
        if known is None:
            local = element.tag.rpartition("}")[2]
            named = _OTHER_DOCUMENTS.get(local.lower(), f"a document of <{local[:50]}>")
            raise ParseError(f"This is {named}, not a feed.")
        return XmlNode(element, name, self._url, self._has_bases), known


def _drop_element(element: etree._Element | None) -> None:
    """Removes an entry that was read from its tree. The one that ends just now must stay: its tail is still to come."""
    parent = element.getparent() if element is not None else None
    if element is not None and parent is not None:
        parent.remove(element)
