"""Well-formed feeds, of every XML format, read entry by entry. PURE.

The tree never holds more than one entry: memory goes by the entries that are kept, not by the document.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO

from lxml import etree

from feeds.errors import ParseError

from . import entries, heads, names
from .documents import Format
from .drafts import EntryDraft, FeedDraft
from .elements import Node
from .newest import newest

_ITEMS = ("item", "atom:entry", "entry")
_FORMATS: dict[str, Format] = {
    "rss": "rss",
    "channel": "rss",
    "rdf:rdf": "rdf",
    "atom:feed": "atom",
    "feed": "atom",
}
_OTHERS = {
    "html": "a web page",
    "opml": "a list of feeds (OPML)",
    "urlset": "a sitemap",
    "sitemapindex": "a sitemap",
    "svg": "a picture",
}


class NotWellFormed(Exception):
    """The document breaks the rules of XML. The message says where."""


@dataclass(frozen=True, slots=True)
class Read:
    """What a reader found: drafts, and how many entries there were."""

    feed: FeedDraft
    entries: list[EntryDraft]
    found: int
    format: Format


def read(data: bytes, url: str, max_entries: int) -> Read:
    """Reads a document in UTF-8, without a DOCTYPE.

    Raises NotWellFormed, and ParseError for what is well-formed and no feed.
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
    items = _Items(events, url, has_bases=b"xml:base" in data)
    try:
        kept, found = newest(items, max_entries)
    except etree.XMLSyntaxError as error:
        raise NotWellFormed(f"{error.msg}") from error
    root, known = items.root()
    channel = next(root.nodes("channel"), root)
    return Read(heads.read(channel, root), kept, found, known)


class _Items:
    """The entries of a document as they end, and its root when all have."""

    def __init__(self, events: "etree.iterparse[tuple[str, etree._Element]]", url: str, *, has_bases: bool) -> None:
        self._events = events
        self._url = url
        self._has_bases = has_bases

    def __iter__(self) -> Iterator[EntryDraft]:
        name, previous, depth = None, None, 0
        for event, element in self._events:
            name = name or names.naming(element.getroottree().getroot().tag)
            depth += 1 if event == "start" else -1
            # Entries inside of entries are somebody else's, quoted: they go with what they are in.
            if event == "end" and depth == 0 and name(element.tag) in _ITEMS:
                yield entries.read(Node(element, name, self._url, self._has_bases))
                element.clear(keep_tail=False)
                _drop(previous)
                previous = element

    def root(self) -> tuple[Node, Format]:
        """Once all entries were read."""
        element = self._events.root
        name = names.naming(element.tag)
        known = _FORMATS.get(name(element.tag))
        if known is None:
            local = element.tag.rpartition("}")[2]
            raise ParseError(f"This is {_OTHERS.get(local.lower(), f'a document of <{local[:50]}>')}, not a feed.")
        return Node(element, name, self._url, self._has_bases), known


def _drop(element: etree._Element | None) -> None:
    """Takes an entry that was read out of its tree. The one that ends just now must stay: its tail is to come."""
    parent = element.getparent() if element is not None else None
    if element is not None and parent is not None:
        parent.remove(element)
