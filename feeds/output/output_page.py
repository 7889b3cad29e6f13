"""The page of a feed that is rendered, its head and sources, and the elements that Atom and RSS share."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from urllib.parse import quote

from lxml import etree

from ..parser import charset
from ..parser.documents import Author, Enclosure, EntrySource, FeedHead, ParsedEntry

_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s<>\"{}|\\^`]+")


@dataclass(frozen=True, slots=True)
class OutputPage:
    """Some entries of a feed, in their order on the page, and the page's addresses.

    `feed` gives title, texts, site, picture, authors and language; `updated` is the time of the last change on the
    page, and the date of entries without one. `address` is that of the page itself; `first_address`, `previous_address`
    and `next_address` are those of other pages (RFC 5005, 3), empty for none. `hubs` are those of this site. The
    publisher's own hubs, clouds and pauses are not repeated.
    """

    feed: FeedHead
    entries: Sequence[ParsedEntry]
    address: str
    updated: datetime
    first_address: str = ""
    previous_address: str = ""
    next_address: str = ""
    hubs: tuple[str, ...] = ()

    def links(self, site: str = "") -> list[tuple[str, str]]:
        """The relations and addresses of the page's links, with that of the site as `alternate` if it is given."""
        around = [("first", self.first_address), ("previous", self.previous_address), ("next", self.next_address)]
        links = [("self", self.address), ("alternate", site), *around, *(("hub", hub) for hub in self.hubs)]
        return [(relation, address) for relation, address in links if address]

    def moment(self, entry: ParsedEntry) -> datetime:
        return entry.updated or entry.published or self.updated

    def unique_id(self, entry: ParsedEntry) -> str:
        """An absolute IRI (RFC 4287, 4.2.6). An id that is only unique in its feed gets the feed's address in front."""
        written = entry.id or entry.link
        if not written:
            written = f"{self.moment(entry).isoformat()} {entry.title or entry.content[:200]}"
        elif is_absolute_iri(written):
            return written
        feed = entry.source.url if entry.source and entry.source.url else self.feed.self_link or self.address
        return f"{feed.partition('#')[0]}#{quote(written, safe='')}"


def is_absolute_iri(text: str) -> bool:
    """True if an id is an IRI with a scheme, and so may be unique everywhere."""
    return _ABSOLUTE.fullmatch(text) is not None


def format_timestamp(moment: datetime) -> str:
    """RFC 3339, in UTC, with a fraction only where there is one."""
    return moment.isoformat().replace("+00:00", "Z")


ATOM = "http://www.w3.org/2005/Atom"
CONTENT = "http://purl.org/rss/1.0/modules/content/"
DC = "http://purl.org/dc/elements/1.1/"
GEORSS = "http://www.georss.org/georss"
MEDIA = "http://search.yahoo.com/mrss/"
XML = "http://www.w3.org/XML/1998/namespace"


def add_element(
    parent: etree._Element, name: str, text: str = "", attributes: Mapping[str, str] | None = None
) -> etree._Element:
    """Adds a child with these attributes, without empty ones."""
    child = etree.SubElement(parent, name)
    for key, value in (attributes or {}).items():
        if value:
            child.set(key, charset.strip_illegal(value))
    child.text = charset.strip_illegal(text) or None
    return child


def add_text(parent: etree._Element, name: str, text: str) -> None:
    """Adds a child, unless it would be empty."""
    if text:
        add_element(parent, name, text)


def add_person(parent: etree._Element, author: Author) -> None:
    """Adds an Atom person (RFC 4287, 3.2), which needs a name."""
    person = add_element(parent, f"{{{ATOM}}}author")
    add_element(person, f"{{{ATOM}}}name", author.name)
    add_text(person, f"{{{ATOM}}}uri", author.url)
    add_text(person, f"{{{ATOM}}}email", author.email)


def add_source(parent: etree._Element, entry: ParsedEntry) -> None:
    """Adds Atom's source (RFC 4287, 4.2.11)."""
    if entry.source is None:
        return
    source = add_element(parent, f"{{{ATOM}}}source")
    add_text(source, f"{{{ATOM}}}id", entry.source.url)
    add_text(source, f"{{{ATOM}}}title", entry.source.title)
    for relation, address in (("self", entry.source.url), ("alternate", entry.source.link)):
        if address:
            add_element(source, f"{{{ATOM}}}link", attributes={"rel": relation, "href": address})


def add_extras(parent: etree._Element, entry: ParsedEntry) -> None:
    """Adds a picture (Media RSS), and a place (GeoRSS)."""
    if entry.image:
        add_element(parent, f"{{{MEDIA}}}thumbnail", attributes={"url": entry.image})
    if entry.point:
        add_element(parent, f"{{{GEORSS}}}point", f"{entry.point.latitude} {entry.point.longitude}")


def add_media(parent: etree._Element, enclosures: Iterable[Enclosure]) -> None:
    """Adds durations and titles of enclosures, for which neither format has an own element."""
    for enclosure in enclosures:
        if enclosure.seconds or enclosure.title:
            attributes = {"url": enclosure.url, "type": enclosure.media_type, "duration": str(enclosure.seconds or "")}
            media = add_element(parent, f"{{{MEDIA}}}content", attributes=attributes)
            add_text(media, f"{{{MEDIA}}}title", enclosure.title)


def serialise_xml(root: etree._Element) -> bytes:
    etree.cleanup_namespaces(root)
    return etree.tostring(root, encoding="utf-8", xml_declaration=True, pretty_print=True)


@dataclass(frozen=True, slots=True)
class FeedOrigin:
    """A feed as its entries name it: its address and title on this site, and its words about itself.

    `page` is the path of its page for people. Neither `id` nor `url` is the address that it is fetched from, which may
    hold secrets and may change: readers take entries for new ones if ids change. `secrets` are parts of that address,
    which `head` does not contain.
    """

    id: str
    url: str
    page: str
    title: str
    site: str
    head: FeedHead
    secrets: tuple[str, ...] = ()


def make_feed_head(origin: FeedOrigin) -> FeedHead:
    """Returns the head of one feed: its own, under the title and the id that it has here."""
    link = origin.head.link or origin.site
    return replace(origin.head, id=origin.id, title=origin.title, link=link, self_link=origin.url)


def identify_entry(entry: ParsedEntry, own_id: str) -> ParsedEntry:
    """Returns the entry under an id that is unique everywhere: the publisher's, else `own_id`."""
    written = entry.id or entry.link
    return replace(entry, id=written if is_absolute_iri(written) else own_id)


def credit_entry(entry: ParsedEntry, origin: FeedOrigin) -> ParsedEntry:
    """Returns the entry for a page of several feeds: with its source, and with its feed's authors if it has none."""
    authors = entry.authors or origin.head.authors or (Author(origin.title),)
    return replace(entry, authors=authors, source=entry.source or EntrySource(origin.title, origin.url, origin.site))
