"""Renders RSS 2.0, by the advice of its board, with Atom's links for pages."""

from email.utils import format_datetime
from urllib.parse import urlsplit

from lxml import etree

from ..parser.documents import ParsedCategory, ParsedEntry
from . import output_page
from .output_page import (
    ATOM,
    CONTENT,
    DC,
    EPISODE_NAMESPACES,
    GEORSS,
    MEDIA,
    SOURCE,
    OutputPage,
    add_element,
    add_text,
    format_timestamp,
)

MEDIA_TYPE = "application/rss+xml; charset=utf-8"
_NAMESPACES = {
    **{"atom": ATOM, "content": CONTENT, "dc": DC, "media": MEDIA, "georss": GEORSS, "source": SOURCE},
    **EPISODE_NAMESPACES,
}
_UNKNOWN_TYPE = "application/octet-stream"


def render(page: OutputPage) -> bytes:
    feed = output_page.present_head(page.feed)
    root = etree.Element("rss", nsmap=_NAMESPACES, version="2.0")
    channel = add_element(root, "channel")
    add_element(channel, "title", feed.title)
    add_element(channel, "link", feed.link or page.address)
    add_element(channel, "description", feed.subtitle)
    add_text(channel, "language", feed.language)
    add_text(channel, "copyright", feed.rights)
    add_element(channel, "lastBuildDate", format_datetime(feed.updated or page.updated, usegmt=True))
    add_text(channel, f"{{{ATOM}}}id", feed.id)
    for relation, address in page.links():
        add_element(channel, f"{{{ATOM}}}link", attributes={"rel": relation, "href": address})
    if page.cloud:
        add_element(channel, "cloud", attributes=_cloud_attributes(page.cloud)).set("registerProcedure", "")
        add_element(channel, f"{{{SOURCE}}}cloud", page.cloud)
    for author in feed.authors:
        output_page.add_person(channel, author)
    _add_categories(channel, feed.categories)
    if feed.image:
        image = add_element(channel, "image")
        add_element(image, "url", feed.image)
        add_element(image, "title", feed.title)
        add_element(image, "link", feed.link or page.address)
    add_text(channel, f"{{{ATOM}}}icon", feed.icon)
    for entry in page.entries:
        _add_entry(channel, page, entry)
    return output_page.serialise_xml(root)


def _cloud_attributes(cloud: str) -> dict[str, str]:
    """The attributes of <cloud>, for the cloud at that URL."""
    address = urlsplit(cloud)
    is_https = address.scheme == "https"
    return {
        "domain": address.hostname or "",
        "port": str(address.port or (443 if is_https else 80)),
        "path": address.path,
        "protocol": "https-post" if is_https else "http-post",
    }


def _add_categories(parent: etree._Element, categories: tuple[ParsedCategory, ...]) -> None:
    """RSS has no labels: where there are any, Atom's element has everything."""
    if any(category.label for category in categories):
        for category in categories:
            attributes = {"term": category.term, "scheme": category.scheme, "label": category.label}
            add_element(parent, f"{{{ATOM}}}category", attributes=attributes)
    for category in categories:
        add_element(parent, "category", category.term, {"domain": category.scheme})


def _add_entry(channel: etree._Element, page: OutputPage, entry: ParsedEntry) -> None:
    item, guid = add_element(channel, "item"), page.unique_id(entry)
    entry = output_page.present_entry(entry)
    add_text(item, "title", entry.title)
    add_text(item, "link", entry.link)
    add_element(item, "guid", guid, {"isPermaLink": "true" if guid == entry.link else "false"})
    if entry.published:
        if entry.published.microsecond:  # RFC 822 has whole seconds only; Atom's date is read first
            add_element(item, f"{{{ATOM}}}published", format_timestamp(entry.published))
        add_element(item, "pubDate", format_datetime(entry.published, usegmt=True))
    if entry.updated or not entry.published:
        add_element(item, f"{{{ATOM}}}updated", format_timestamp(page.moment(entry)))
    _add_texts(item, entry)
    _add_people(item, entry)
    _add_categories(item, entry.categories)
    add_text(item, "comments", entry.comments)
    output_page.add_mentions(item, page.also_in.get(entry.id, ()))
    for enclosure in entry.enclosures:
        attributes = {"url": enclosure.url, "length": str(enclosure.length_bytes or 0)}
        add_element(item, "enclosure", attributes={**attributes, "type": enclosure.media_type or _UNKNOWN_TYPE})
    output_page.add_media(item, entry.enclosures)
    add_text(item, f"{{{DC}}}language", entry.language)
    if entry.source and entry.source.url:
        add_element(item, "source", entry.source.title, {"url": entry.source.url})
    output_page.add_extras(item, entry)
    output_page.add_episode(item, entry)


def _add_texts(item: etree._Element, entry: ParsedEntry) -> None:
    """The content is the description, unless there is a summary beside it."""
    if entry.summary:
        add_element(item, "description", entry.summary)
        add_element(item, f"{{{CONTENT}}}encoded", entry.content)
    elif entry.content or not entry.title:  # one of both must be there
        add_element(item, "description", entry.content)


def _add_people(item: etree._Element, entry: ParsedEntry) -> None:
    """Names alone are Dublin Core's; RSS' own <author> must have a mail address, which few have."""
    for author in entry.authors:
        add_text(item, f"{{{DC}}}creator", author.name)
    if any(author.email or author.url for author in entry.authors):
        for author in entry.authors:
            output_page.add_person(item, author)
