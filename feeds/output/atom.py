"""Renders Atom 1.0 (RFC 4287), with pages by RFC 5005."""

from typing import Any

from lxml import etree

from ..parser.documents import Author, ParsedCategory, ParsedEntry
from . import output_page
from .output_page import ATOM, EPISODE_NAMESPACES, GEORSS, MEDIA, XML, OutputPage, add_element, format_timestamp

MEDIA_TYPE = "application/atom+xml; charset=utf-8"
_NAMESPACES: dict[Any, str] = {None: ATOM, "media": MEDIA, "georss": GEORSS, **EPISODE_NAMESPACES}


def render(page: OutputPage) -> bytes:
    feed = output_page.present_head(page.feed)
    root = etree.Element(f"{{{ATOM}}}feed", nsmap=_NAMESPACES)
    if feed.language:
        root.set(f"{{{XML}}}lang", feed.language)
    _add(root, "id", feed.id if ":" in feed.id else feed.self_link or page.address)
    _add(root, "title", feed.title)
    output_page.add_text(root, f"{{{ATOM}}}subtitle", feed.subtitle)
    _add(root, "updated", format_timestamp(feed.updated or page.updated))
    output_page.add_text(root, f"{{{ATOM}}}rights", feed.rights)
    output_page.add_text(root, f"{{{ATOM}}}logo", feed.image)
    output_page.add_text(root, f"{{{ATOM}}}icon", feed.icon)
    for relation, address in page.links(feed.link):
        _add(root, "link", rel=relation, href=address)
    # Atom asks for an author of the feed where not every entry has one.
    for author in feed.authors or ([] if all(entry.authors for entry in page.entries) else [Author(feed.title)]):
        output_page.add_person(root, author)
    for category in feed.categories:
        _add_category(root, category)
    for entry in page.entries:
        _add_entry(root, page, entry)
    return output_page.serialise_xml(root)


def _add(parent: etree._Element, name: str, text: str = "", **attributes: str) -> None:
    add_element(parent, f"{{{ATOM}}}{name}", text, attributes)


def _add_category(parent: etree._Element, category: ParsedCategory) -> None:
    _add(parent, "category", term=category.term, scheme=category.scheme, label=category.label)


def _add_entry(root: etree._Element, page: OutputPage, entry: ParsedEntry) -> None:
    element, own_id = add_element(root, f"{{{ATOM}}}entry"), page.unique_id(entry)
    entry = output_page.present_entry(entry)
    if entry.language:
        element.set(f"{{{XML}}}lang", entry.language)
    _add(element, "id", own_id)
    _add(element, "title", entry.title)
    if entry.published:
        _add(element, "published", format_timestamp(entry.published))
    _add(element, "updated", format_timestamp(page.moment(entry)))
    if entry.link:
        _add(element, "link", rel="alternate", type="text/html", href=entry.link)
    if entry.comments:
        _add(element, "link", rel="replies", type="text/html", href=entry.comments)
    output_page.add_mentions(element, page.also_in.get(entry.id, ()))
    for enclosure in entry.enclosures:
        _add(element, "link", rel="enclosure", href=enclosure.url, type=enclosure.media_type,
             length=str(enclosure.length_bytes or ""), title=enclosure.title)  # fmt: skip
    output_page.add_media(element, entry.enclosures)
    for author in entry.authors:
        output_page.add_person(element, author)
    for category in entry.categories:
        _add_category(element, category)
    if entry.summary:
        _add(element, "summary", entry.summary, type="html")
    if entry.content or not entry.link:  # one of both must be there (RFC 4287, 4.1.2)
        _add(element, "content", entry.content, type="html")
    _add_source(element, entry)
    output_page.add_extras(element, entry)
    output_page.add_episode(element, entry)


def _add_source(parent: etree._Element, entry: ParsedEntry) -> None:
    """Adds the source (RFC 4287, 4.2.11)."""
    if entry.source is None:
        return
    source = add_element(parent, f"{{{ATOM}}}source")
    output_page.add_text(source, f"{{{ATOM}}}id", entry.source.url)
    output_page.add_text(source, f"{{{ATOM}}}title", entry.source.title)
    for relation, address in (("self", entry.source.url), ("alternate", entry.source.link)):
        if address:
            _add(source, "link", rel=relation, href=address)
