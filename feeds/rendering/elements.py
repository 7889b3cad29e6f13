"""Elements of the XML formats, and what both write alike. PURE."""

from collections.abc import Iterable, Mapping

from lxml import etree

from feeds.parsing.documents import Author, Enclosure, Entry

from .pages import legal

ATOM = "http://www.w3.org/2005/Atom"
CONTENT = "http://purl.org/rss/1.0/modules/content/"
DC = "http://purl.org/dc/elements/1.1/"
GEORSS = "http://www.georss.org/georss"
MEDIA = "http://search.yahoo.com/mrss/"
XML = "http://www.w3.org/XML/1998/namespace"


def add(
    parent: etree._Element, name: str, text: str = "", attributes: Mapping[str, str] | None = None
) -> etree._Element:
    """Adds a child with these attributes, those that are not empty."""
    child = etree.SubElement(parent, name)
    for key, value in (attributes or {}).items():
        if value:
            child.set(key, legal(value))
    child.text = legal(text) or None
    return child


def add_text(parent: etree._Element, name: str, text: str) -> None:
    """Adds a child, unless it would be empty."""
    if text:
        add(parent, name, text)


def add_person(parent: etree._Element, author: Author) -> None:
    """An Atom person (RFC 4287, 3.2), who needs a name."""
    person = add(parent, f"{{{ATOM}}}author")
    add(person, f"{{{ATOM}}}name", author.name)
    add_text(person, f"{{{ATOM}}}uri", author.url)
    add_text(person, f"{{{ATOM}}}email", author.email)


def add_source(parent: etree._Element, entry: Entry) -> None:
    """Atom's source (RFC 4287, 4.2.11)."""
    if entry.source is None:
        return
    source = add(parent, f"{{{ATOM}}}source")
    add_text(source, f"{{{ATOM}}}id", entry.source.url)
    add_text(source, f"{{{ATOM}}}title", entry.source.title)
    for relation, address in (("self", entry.source.url), ("alternate", entry.source.link)):
        if address:
            add(source, f"{{{ATOM}}}link", attributes={"rel": relation, "href": address})


def add_extras(parent: etree._Element, entry: Entry) -> None:
    """A picture (Media RSS), and a place (GeoRSS)."""
    if entry.image:
        add(parent, f"{{{MEDIA}}}thumbnail", attributes={"url": entry.image})
    if entry.point:
        add(parent, f"{{{GEORSS}}}point", f"{entry.point.latitude} {entry.point.longitude}")


def add_media(parent: etree._Element, enclosures: Iterable[Enclosure]) -> None:
    """How long enclosures are, and what they are called, for which neither format has a place of its own."""
    for enclosure in enclosures:
        if enclosure.seconds or enclosure.title:
            attributes = {"url": enclosure.url, "type": enclosure.media_type, "duration": str(enclosure.seconds or "")}
            media = add(parent, f"{{{MEDIA}}}content", attributes=attributes)
            add_text(media, f"{{{MEDIA}}}title", enclosure.title)


def length(enclosure: Enclosure) -> str:
    return str(enclosure.length_bytes) if enclosure.length_bytes else ""


def written(root: etree._Element) -> bytes:
    etree.cleanup_namespaces(root)
    return etree.tostring(root, encoding="utf-8", xml_declaration=True, pretty_print=True)
