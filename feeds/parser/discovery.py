"""Finds the feeds of a web page, and its hubs. PURE."""

import re
from dataclasses import dataclass

from lxml import etree

from . import addresses, decoding, elements, sanitising

_TYPES = frozenset(
    (
        *("application/rss+xml", "application/atom+xml", "application/rdf+xml", "application/feed+json"),
        *("text/rss+xml", "text/atom+xml", "application/x-rss+xml", "application/x.atom+xml"),
    )
)
_DOUBTFUL_TYPES = frozenset(("application/json", "application/xml", "text/xml", ""))
_FEED_ADDRESS = re.compile(
    r"(?:^|[/._=-])(?:feeds?|rss2?|atom|rdf)(?:[/?#]?$|\.(?:xml|json|php|rdf)$|/(?:rss|atom|all|posts|default)/?$)"
    r"|\.(?:rss|atom|rdf)$|/(?:index|feed)\.xml$",
    re.IGNORECASE,
)
_MAX_BYTES = 2_000_000
_MAX_CHARACTERS = 4_000
_MOST, _MOST_HUBS = 50, 10


@dataclass(frozen=True, slots=True)
class FeedAddress:
    """An address that a page says is a feed. `media_type` and `title` are its word, or empty."""

    url: str
    title: str = ""
    media_type: str = ""


def discover(page: bytes, url: str, content_type: str = "") -> list[FeedAddress]:
    """The feeds that a page announces, the likeliest first; where it announces none, links that look like feeds.

    `url` is where the page came from, after redirects. Whether they are feeds is only known when they are fetched.
    """
    root = _read(page, content_type)
    if root is None:
        return []
    base = _base(root, url)
    found = _announced(root, base) or _linked(root, base)
    by_url: dict[str, FeedAddress] = {}
    for address in found:
        by_url.setdefault(address.url, address)
    by_url.pop(url, None)
    # Comments are announced by many, and wanted by few.
    return sorted(by_url.values(), key=_is_of_comments)[:_MOST]


def hubs(page: bytes, url: str, content_type: str = "") -> tuple[tuple[str, ...], str]:
    """The hubs that a page names for itself (WebSub, 4), and its own address; empty for none."""
    root = _read(page, content_type)
    if root is None:
        return (), ""
    base, found = _base(root, url), {"hub": list[str](), "self": list[str]()}
    for tag in root.iter("link"):
        address = addresses.absolute(base, tag.get("href", ""), _MAX_CHARACTERS)
        for relation in found.keys() & set(tag.get("rel", "").lower().split() if address else ()):
            found[relation].append(address)
    return tuple(found["hub"][:_MOST_HUBS]), next(iter(found["self"]), "")


def _read(page: bytes, content_type: str) -> etree._Element | None:
    text = decoding.decode(page[:_MAX_BYTES], content_type).replace("\0", "")
    parser = etree.HTMLParser(recover=True, no_network=True, remove_comments=True, encoding="utf-8")
    return etree.fromstring(f"<!DOCTYPE html>{text}".encode("utf-8", "replace"), parser=parser)


def _base(root: etree._Element, url: str) -> str:
    return next((addresses.joined(url, tag.get("href", "")) for tag in root.iter("base") if tag.get("href")), url)


def _announced(root: etree._Element, base: str) -> list[FeedAddress]:
    found = []
    for tag in root.iter("link"):
        relations = tag.get("rel", "").lower().split()
        media_type = tag.get("type", "").split(";")[0].strip().lower()
        href = tag.get("href", "")
        is_feed = media_type in _TYPES or (media_type in _DOUBTFUL_TYPES and _looks_like_feed(href))
        if ("feed" in relations or ("alternate" in relations and is_feed)) and "stylesheet" not in relations:
            found.append(_address(base, href, tag.get("title", ""), media_type))
    return [address for address in found if address.url]


def _linked(root: etree._Element, base: str) -> list[FeedAddress]:
    found = [
        _address(base, tag.get("href", ""), elements.text_of(tag)[:500], tag.get("type", ""))
        for tag in root.iter("a")
        if _looks_like_feed(tag.get("href", ""))
    ]
    return [address for address in found if address.url]


def _looks_like_feed(href: str) -> bool:
    return len(href) <= _MAX_CHARACTERS and _FEED_ADDRESS.search(href.strip()) is not None


def _address(base: str, href: str, title: str, media_type: str) -> FeedAddress:
    if href.strip().lower().startswith("feed:"):  # an old scheme: feed://host/ and feed:https://host/
        rest = href.strip()[5:]
        href = "http:" + rest if rest.startswith("//") else rest
    return FeedAddress(addresses.absolute(base, href, _MAX_CHARACTERS), sanitising.one_line(title)[:500], media_type)


def _is_of_comments(address: FeedAddress) -> bool:
    return "comment" in f"{address.url} {address.title}".lower()
