"""Finds the feeds of a web page, its hubs, and its icon."""

import re
from dataclasses import dataclass

from lxml import etree

from . import charset, markup, xml

_FEED_TYPES = (
    *("application/rss+xml", "application/atom+xml", "application/rdf+xml", "application/feed+json"),
    *("text/rss+xml", "text/atom+xml", "application/x-rss+xml", "application/x.atom+xml"),
)
_DOUBTFUL_TYPES = ("application/json", "application/xml", "text/xml", "")
_FEED_ADDRESS = re.compile(
    r"(?:^|[/._=-])(?:feeds?|rss2?|atom|rdf)(?:[/?#]?$|\.(?:xml|json|php|rdf)$|/(?:rss|atom|all|posts|default)/?$)"
    r"|\.(?:rss|atom|rdf)$|/(?:index|feed)\.xml$",
    re.IGNORECASE,
)
_MAX_BYTES = 2_000_000
_MAX_CHARACTERS = 4_000
_MAX_FEEDS, _MAX_HUBS = 50, 10
_MAX_ICON_CHARACTERS = 2_000
_ICON_PIXELS, _UNKNOWN_DISTANCE = 32, 100
"""The width for which an icon is chosen, and the distance from it of an icon that names no size."""


@dataclass(frozen=True, slots=True)
class FeedAddress:
    """An address that a page announces as a feed. The page gives `media_type` and `title`, or they are empty."""

    url: str
    title: str = ""
    media_type: str = ""


def discover_feeds(page: bytes, url: str, content_type: str = "") -> list[FeedAddress]:
    """Returns the feeds that a page announces, the likeliest first; if it announces none, links that look like feeds.

    `url` is the page's address after redirects. Only their fetch shows whether they are feeds.
    """
    root = _parse_page(page, content_type)
    if root is None:
        return []
    base = _base_url(root, url)
    found = _announced_feeds(root, base) or _linked_feeds(root, base)
    by_url: dict[str, FeedAddress] = {}
    for address in filter(lambda one: one.url, found):
        by_url.setdefault(address.url, address)
    by_url.pop(url, None)
    # Many pages announce their comments, and few readers want them.
    return sorted(by_url.values(), key=lambda one: "comment" in f"{one.url} {one.title}".lower())[:_MAX_FEEDS]


def discover_hubs(page: bytes, url: str, content_type: str = "") -> tuple[tuple[str, ...], str]:
    """Returns the hubs that a page names for itself (WebSub, 4), and its own address; empty for none."""
    root = _parse_page(page, content_type)
    if root is None:
        return (), ""
    base, found = _base_url(root, url), {"hub": list[str](), "self": list[str]()}
    for tag in root.iter("link"):
        address = markup.absolute_url(base, tag.get("href", ""), _MAX_CHARACTERS)
        for relation in found.keys() & set(tag.get("rel", "").lower().split() if address else ()):
            found[relation].append(address)
    return tuple(found["hub"][:_MAX_HUBS]), next(iter(found["self"]), "")


_ICON_STARTS = (b"\x00\x00\x01\x00", b"\x89PNG", b"GIF8", b"\xff\xd8\xff", b"RIFF", b"<svg", b"<?xml")


def discover_icon(page: bytes, url: str, content_type: str = "") -> str:
    """Returns the address of the icon that a page declares, the one that is best for 32 pixels; empty for none."""
    root = _parse_page(page, content_type)
    if root is None:
        return ""
    base, found = _base_url(root, url), list[tuple[tuple[int, int], str]]()
    for tag in root.iter("link"):
        relations = set(tag.get("rel", "").lower().split())
        address = markup.absolute_url(base, tag.get("href", ""), _MAX_ICON_CHARACTERS)
        if address and relations & {"icon", "apple-touch-icon"}:
            found.append(((int("icon" not in relations), _icon_distance(tag.get("sizes", ""))), address))
    return min(found, key=lambda one: one[0], default=(None, ""))[1]


def _icon_distance(sizes: str) -> int:
    """How far the sizes of an icon are from the wanted one: too small is worse than too large."""
    widths = [int(width) for width in re.findall(r"(?<!\d)(\d{1,4})x\d{1,4}", sizes.lower())]
    distances = (width - _ICON_PIXELS if width >= _ICON_PIXELS else 10_000 - width for width in widths)
    return min(distances, default=_UNKNOWN_DISTANCE)


def is_icon(body: bytes) -> bool:
    """True if a file begins as a picture does."""
    return body.lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith(_ICON_STARTS[-2:]) or body.startswith(_ICON_STARTS)


def _parse_page(page: bytes, content_type: str) -> etree._Element | None:
    text = charset.decode_document(page[:_MAX_BYTES], content_type).replace("\0", "")
    parser = etree.HTMLParser(recover=True, no_network=True, remove_comments=True, encoding="utf-8")
    return etree.fromstring(f"<!DOCTYPE html>{text}".encode("utf-8", "replace"), parser=parser)


def _base_url(root: etree._Element, url: str) -> str:
    return next((markup.join_base(url, tag.get("href", "")) for tag in root.iter("base") if tag.get("href")), url)


def _announced_feeds(root: etree._Element, base: str) -> list[FeedAddress]:
    found = []
    for tag in root.iter("link"):
        relations = tag.get("rel", "").lower().split()
        media_type = tag.get("type", "").split(";")[0].strip().lower()
        href = tag.get("href", "")
        is_feed = media_type in _FEED_TYPES or (media_type in _DOUBTFUL_TYPES and _looks_like_feed(href))
        if ("feed" in relations or ("alternate" in relations and is_feed)) and "stylesheet" not in relations:
            found.append(_feed_address(base, href, tag.get("title", ""), media_type))
    return [address for address in found if address.url]


def _linked_feeds(root: etree._Element, base: str) -> list[FeedAddress]:
    found = []
    for tag in root.iter("a"):
        if _looks_like_feed(href := tag.get("href", "")):
            found.append(_feed_address(base, href, xml.element_text(tag)[:500], tag.get("type", "")))
    return [address for address in found if address.url]


def _looks_like_feed(href: str) -> bool:
    return len(href) <= _MAX_CHARACTERS and _FEED_ADDRESS.search(href.strip()) is not None


def _feed_address(base: str, href: str, title: str, media_type: str) -> FeedAddress:
    if href.strip().lower().startswith("feed:"):  # an old scheme: feed://host/ and feed:https://host/
        rest = href.strip()[5:]
        href = "http:" + rest if rest.startswith("//") else rest
    return FeedAddress(markup.absolute_url(base, href, _MAX_CHARACTERS), markup.to_one_line(title)[:500], media_type)
