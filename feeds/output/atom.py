"""Renders Atom 1.0 (RFC 4287), with pages by RFC 5005. PURE."""

from typing import Any

from lxml import etree

from feeds.parsing.documents import Author, Category, Entry

from .elements import ATOM, GEORSS, MEDIA, XML, add, add_extras, add_media, add_person, add_source, length, written
from .pages import Page, timestamp

MEDIA_TYPE = "application/atom+xml; charset=utf-8"
_NAMESPACES: dict[Any, str] = {None: ATOM, "media": MEDIA, "georss": GEORSS}


def render(page: Page) -> bytes:
    """The document, in UTF-8."""
    feed = page.feed
    root = etree.Element(f"{{{ATOM}}}feed", nsmap=_NAMESPACES)
    if feed.language:
        root.set(f"{{{XML}}}lang", feed.language)
    _add(root, "id", feed.id if ":" in feed.id else feed.self_link or page.address)
    _add(root, "title", feed.title)
    if feed.subtitle:
        _add(root, "subtitle", feed.subtitle)
    _add(root, "updated", timestamp(feed.updated or page.updated))
    if feed.rights:
        _add(root, "rights", feed.rights)
    if feed.image:
        _add(root, "logo", feed.image)
    _add_links(root, page)
    # Atom asks for an author of the feed where not every entry has one.
    for author in feed.authors or ([] if all(entry.authors for entry in page.entries) else [Author(feed.title)]):
        add_person(root, author)
    for category in feed.categories:
        _add_category(root, category)
    for entry in page.entries:
        _add_entry(root, page, entry)
    return written(root)


def _add(parent: etree._Element, name: str, text: str = "", **attributes: str) -> None:
    add(parent, f"{{{ATOM}}}{name}", text, attributes)


def _add_links(root: etree._Element, page: Page) -> None:
    links = [("self", page.address), ("alternate", page.feed.link), ("first", page.first_address)]
    links += [("previous", page.previous_address), ("next", page.next_address)]
    for relation, address in (*links, *(("hub", hub) for hub in page.hubs)):
        if address:
            _add(root, "link", rel=relation, href=address)


def _add_category(parent: etree._Element, category: Category) -> None:
    _add(parent, "category", term=category.term, scheme=category.scheme, label=category.label)


def _add_entry(root: etree._Element, page: Page, entry: Entry) -> None:
    element = add(root, f"{{{ATOM}}}entry")
    if entry.language:
        element.set(f"{{{XML}}}lang", entry.language)
    _add(element, "id", page.unique_id(entry))
    _add(element, "title", entry.title)
    if entry.published:
        _add(element, "published", timestamp(entry.published))
    _add(element, "updated", timestamp(page.moment(entry)))
    if entry.link:
        _add(element, "link", rel="alternate", type="text/html", href=entry.link)
    if entry.comments:
        _add(element, "link", rel="replies", type="text/html", href=entry.comments)
    for enclosure in entry.enclosures:
        _add(element, "link", rel="enclosure", href=enclosure.url, type=enclosure.media_type, length=length(enclosure),
             title=enclosure.title)  # fmt: skip
    add_media(element, entry.enclosures)
    for author in entry.authors:
        add_person(element, author)
    for category in entry.categories:
        _add_category(element, category)
    if entry.summary:
        _add(element, "summary", entry.summary, type="html")
    if entry.content or not entry.link:  # one of both must be there (RFC 4287, 4.1.2)
        _add(element, "content", entry.content, type="html")
    add_source(element, entry)
    add_extras(element, entry)
