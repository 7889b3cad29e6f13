"""Renders RSS 2.0, by the advice of its board, with Atom's links for pages. PURE."""

from email.utils import format_datetime

from lxml import etree

from feeds.parsing.documents import Category, Entry

from .elements import (
    ATOM,
    CONTENT,
    DC,
    GEORSS,
    MEDIA,
    add,
    add_extras,
    add_media,
    add_person,
    add_source,
    add_text,
    length,
    written,
)
from .pages import Page, timestamp

MEDIA_TYPE = "application/rss+xml; charset=utf-8"
_NAMESPACES = {"atom": ATOM, "content": CONTENT, "dc": DC, "media": MEDIA, "georss": GEORSS}
_UNKNOWN_TYPE = "application/octet-stream"


def render(page: Page) -> bytes:
    """The document, in UTF-8."""
    feed = page.feed
    root = etree.Element("rss", nsmap=_NAMESPACES, version="2.0")
    channel = add(root, "channel")
    add(channel, "title", feed.title)
    add(channel, "link", feed.link or page.address)
    add(channel, "description", feed.subtitle)
    add_text(channel, "language", feed.language)
    add_text(channel, "copyright", feed.rights)
    add(channel, "lastBuildDate", format_datetime(feed.updated or page.updated, usegmt=True))
    add_text(channel, f"{{{ATOM}}}id", feed.id)
    _add_links(channel, page)
    for author in feed.authors:
        add_person(channel, author)
    _add_categories(channel, feed.categories)
    if feed.image:
        image = add(channel, "image")
        add(image, "url", feed.image)
        add(image, "title", feed.title)
        add(image, "link", feed.link or page.address)
    for entry in page.entries:
        _add_entry(channel, page, entry)
    return written(root)


def _add_links(channel: etree._Element, page: Page) -> None:
    links = [("self", page.address), ("first", page.first_address), ("previous", page.previous_address)]
    links += [("next", page.next_address), *(("hub", hub) for hub in page.hubs)]
    for relation, address in links:
        if address:
            add(channel, f"{{{ATOM}}}link", attributes={"rel": relation, "href": address})


def _add_categories(parent: etree._Element, categories: tuple[Category, ...]) -> None:
    """RSS has no labels: where there are any, Atom's element has everything."""
    if any(category.label for category in categories):
        for category in categories:
            attributes = {"term": category.term, "scheme": category.scheme, "label": category.label}
            add(parent, f"{{{ATOM}}}category", attributes=attributes)
    for category in categories:
        add(parent, "category", category.term, {"domain": category.scheme})


def _add_entry(channel: etree._Element, page: Page, entry: Entry) -> None:
    item = add(channel, "item")
    add_text(item, "title", entry.title)
    add_text(item, "link", entry.link)
    guid = page.unique_id(entry)
    add(item, "guid", guid, {"isPermaLink": "true" if guid == entry.link else "false"})
    if entry.published:
        _add_published(item, entry)
    if entry.updated or not entry.published:
        add(item, f"{{{ATOM}}}updated", timestamp(page.moment(entry)))
    _add_texts(item, entry)
    _add_people(item, entry)
    _add_categories(item, entry.categories)
    add_text(item, "comments", entry.comments)
    for enclosure in entry.enclosures:
        attributes = {"url": enclosure.url, "length": length(enclosure) or "0"}
        add(item, "enclosure", attributes={**attributes, "type": enclosure.media_type or _UNKNOWN_TYPE})
    add_media(item, entry.enclosures)
    add_text(item, f"{{{DC}}}language", entry.language)
    _add_source(item, entry)
    add_extras(item, entry)


def _add_published(item: etree._Element, entry: Entry) -> None:
    """RFC 822 has whole seconds only: what has a fraction is written as Atom's date as well, which is read first."""
    if entry.published is None:
        return
    if entry.published.microsecond:
        add(item, f"{{{ATOM}}}published", timestamp(entry.published))
    add(item, "pubDate", format_datetime(entry.published, usegmt=True))


def _add_texts(item: etree._Element, entry: Entry) -> None:
    """The content is the description, unless there is a summary beside it."""
    if entry.summary:
        add(item, "description", entry.summary)
        add(item, f"{{{CONTENT}}}encoded", entry.content)
    elif entry.content or not entry.title:  # one of both must be there
        add(item, "description", entry.content)


def _add_people(item: etree._Element, entry: Entry) -> None:
    """Names alone are Dublin Core's; RSS' own <author> has to have an address, which few have."""
    for author in entry.authors:
        add_text(item, f"{{{DC}}}creator", author.name)
    if any(author.email or author.url for author in entry.authors):
        for author in entry.authors:
            add_person(item, author)


def _add_source(item: etree._Element, entry: Entry) -> None:
    if entry.source and entry.source.url:
        add(item, "source", entry.source.title, {"url": entry.source.url})
    if entry.source and (entry.source.link or not entry.source.url):
        add_source(item, entry)
