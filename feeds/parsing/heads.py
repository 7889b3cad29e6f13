"""From the elements around the entries, of any XML format, to the feed's draft. PURE."""

import re
from collections.abc import Iterable

from lxml import etree

from . import entries
from .documents import Cloud
from .drafts import FeedDraft
from .elements import Node, text_of

_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MAX_TTL_MINUTES = 525_600
_ABOUT = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}about"


def read(node: Node, root: Node) -> FeedDraft:
    """What a <channel>, or an Atom <feed>, says. `root` is around it: RDF has the picture beside the channel."""
    draft = FeedDraft(node.base)
    draft.id = node.text("atom:id") or node.element.get(_ABOUT, "").strip()
    draft.link = entries.link(node)
    draft.title = node.words("title", "atom:title", "dc:title")
    draft.subtitle = node.words("description", "atom:subtitle", "atom:tagline", "itunes:summary", "dc:description")
    draft.updated = entries.first_date(node, *_UPDATED)
    draft.language = node.text("language") or node.language or root.language
    draft.rights = node.words("copyright", "atom:rights", "atom:copyright", "dc:rights")
    draft.image = _image(node) or _image(root)
    draft.authors = entries.authors(node)
    draft.categories = entries.categories(node)
    _read_updating(draft, node)
    return draft


_UPDATED = ("atom:updated", "atom:modified", "lastbuilddate", "pubdate", "dc:date", "dcterms:modified")


def _read_updating(draft: FeedDraft, node: Node) -> None:
    """Where and when to ask again."""
    draft.self_link = entries.href(node, "self") or node.text("source:self")
    draft.next_link = entries.href(node, "next")
    draft.new_address = node.text("itunes:new-feed-url")
    draft.hubs = [link.get("href", "").strip() for link in entries.links(node, "hub")]
    draft.cloud = next((cloud for child in node.all("cloud") if (cloud := _cloud(child))), None)
    draft.cloud_url = node.text("source:cloud")
    draft.ttl_minutes = _minutes(node.text("ttl"))
    draft.skip_hours = _hours(text_of(hour) for skip in node.nodes("skiphours") for hour in skip.all("hour"))
    draft.skip_days = _days(text_of(day) for skip in node.nodes("skipdays") for day in skip.all("day"))


def _cloud(element: etree._Element) -> Cloud | None:
    port = entries.whole(element.get("port", "80"))
    domain = element.get("domain", "").strip()
    if not domain or port is None or port > 65535:
        return None
    procedure, protocol = element.get("registerProcedure", "").strip(), element.get("protocol", "").strip().lower()
    return Cloud(domain, port, element.get("path", "/").strip(), procedure, protocol)


def _minutes(text: str) -> int | None:
    minutes = entries.whole(text)
    return None if minutes is None else min(minutes, _MAX_TTL_MINUTES)


def _hours(texts: Iterable[str]) -> list[int]:
    """Hours from 0 to 23; RSS 0.91 counts to 24."""
    return sorted({int(text) % 24 for text in texts if re.fullmatch(r"\d\d?", text, re.ASCII) and int(text) <= 24})


def _days(texts: Iterable[str]) -> list[int]:
    return sorted({_DAYS.index(text.lower()) for text in texts if text.lower() in _DAYS})


def _image(node: Node) -> str:
    """RSS' picture, iTunes' or Atom's: the larger logo before the icon."""
    found = [child.text("url") for child in node.nodes("image")]
    found += [child.get("href", "") for child in node.all("itunes:image")]
    found += node.texts("atom:logo", "atom:icon")
    found += [child.get("url", "") for child in node.all("media:thumbnail")]
    return next((url.strip() for url in found if url.strip()), "")
