"""Reads the elements of entries and of the feed around them, of any XML format, into drafts."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime

from lxml import etree

from . import documents, markup, normalise, podcast
from .xml import XmlNode, element_text

_MAX_PERSON_CHARACTERS = 2_000
_EMAIL = re.compile(r"[^\s<>()@,;:\"]{1,100}@[^\s<>()@,;:\"]{1,200}")
_NAME_AND_EMAIL = re.compile(
    r"""["']?(?P<name>[^<>()"]*?)["']?\s?[<(]\s?(?:mailto:)?(?P<email>[^<>()\s@]+@[^<>()\s@]+)\s?[>)]"""
)


def parse_person(text: str) -> documents.Author:
    """Returns the person of `a@b.org (Name)`, `Name <a@b.org>`, `a@b.org` or `Name`."""
    text = " ".join(text[:_MAX_PERSON_CHARACTERS].split())
    if named := _NAME_AND_EMAIL.fullmatch(text):
        return documents.Author(named["name"].strip(), named["email"])
    found = _EMAIL.match(text)
    if found is None:
        return documents.Author(text)
    rest = text[found.end() :].strip()
    if not rest:
        return documents.Author("", found[0])
    if rest[0] == "(" and rest[-1] == ")":
        return documents.Author(rest[1:-1].strip(), found[0])
    return documents.Author(text)


_ABOUT = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}about"
_ENTRY_PUBLISHED = (
    *("atom:published", "pubdate", "atom:issued", "dcterms:issued", "dc:date", "dcterms:created", "atom:created"),
    *("published", "date"),
)
_ENTRY_UPDATED = ("atom:updated", "atom:modified", "dcterms:modified", "updated", "lastbuilddate")
_FLASH_TYPE = "application/x-shockwave-flash"
_RELATION = "http://www.iana.org/assignments/relation/"
_MAX_SECONDS = 10_000_000
_NUMBER = re.compile(r"[+-]?\d{1,3}(?:\.\d{1,15})?", re.ASCII)


def read_entry(node: XmlNode) -> documents.EntryDraft:
    """Reads an <item> or an Atom <entry>."""
    draft = documents.EntryDraft(node.base)
    draft.id = node.text("guid") or _own_id(node)
    draft.link = _page_link(node) or _permalink(node) or link_of_id(_own_id(node))
    draft.title = node.words("title", "atom:title", "dc:title", "media:title", "itunes:title")
    draft.published = _first_date(node, *_ENTRY_PUBLISHED)
    draft.updated = _first_date(node, *_ENTRY_UPDATED)
    draft.summary, draft.content = _read_texts(node)
    draft.authors = _read_authors(node)
    draft.categories = _read_categories(node)
    media = [child for group in (node, *node.nodes("media:group")) for child in group.nodes("media:content")]
    media = [child for child in media if child.element.get("type") != _FLASH_TYPE]
    draft.enclosures = list(_read_enclosures(node))
    urls = {enclosure.url for enclosure in draft.enclosures}
    draft.enclosures += [
        _media_enclosure(child) for child in media if child.element.get("url") in urls or not _is_image(child)
    ]
    draft.image = _entry_image(node, [child for child in media if child.element.get("url") not in urls])
    replies = (child.get("href", "") for child in _find_links(node, "replies") if "html" in child.get("type", "html"))
    draft.comments = node.text("comments") or next(replies, "")
    draft.language = node.language
    draft.source = _read_source(node)
    draft.point = _read_point(node)
    podcast.read_episode(node, draft)
    return draft


def _own_id(node: XmlNode) -> str:
    return node.text("atom:id") or node.element.get(_ABOUT, "").strip()


def link_of_id(text: str) -> str:
    """Returns an id that is an address, for entries without a link; empty for other ids."""
    return text if text.lower().startswith(("http://", "https://")) else ""


def _first_date(node: XmlNode, *names: str) -> datetime | None:
    return next((moment for text in node.texts(*names) if (moment := normalise.parse_date(text))), None)


def _link_relation(element: etree._Element) -> str:
    """Returns an Atom link's relation; `alternate` if it has none (RFC 4287, 4.2.7.2)."""
    return element.get("rel", "alternate").strip().lower().removeprefix(_RELATION) or "alternate"


def _page_link(node: XmlNode) -> str:
    """Returns the page: RSS' <link>, or the alternate of Atom that is most probably for people."""
    alternates = [
        child for child in node.all("atom:link", "link") if _link_relation(child) == "alternate" and child.get("href")
    ]
    written = node.text("link") or _text_of_link(node)
    if written or not alternates:
        return written
    pages = [child for child in alternates if "html" in child.get("type", "html")]
    return (pages or alternates)[0].get("href", "").strip()


def _text_of_link(node: XmlNode) -> str:
    """Returns the address in an Atom <link> that is written as in RSS."""
    return next((element_text(child) for child in node.all("atom:link") if not child.get("href")), "")


def _find_links(node: XmlNode, *relations: str) -> Iterator[etree._Element]:
    for child in node.all("atom:link", "link"):
        if child.get("href", "").strip() and _link_relation(child) in relations:
            yield child


def _find_href(node: XmlNode, *relations: str) -> str:
    return next((child.get("href", "").strip() for child in _find_links(node, *relations)), "")


def _permalink(node: XmlNode) -> str:
    """Returns the guid: it is the page's address unless it says otherwise (RSS 2.0)."""
    for guid in node.all("guid"):
        text = element_text(guid)
        if text.startswith(("http://", "https://")) and guid.get("isPermaLink", "true").strip().lower() != "false":
            return text
    return ""


def _read_texts(node: XmlNode) -> tuple[documents.DraftText, documents.DraftText]:
    """Returns summary and content. If there is only one text, whatever its name, it is the content."""
    content = node.words("content:encoded", "atom:content", "content", "xhtml:body", "xhtml:div")
    summary = node.words("description", "atom:summary", "summary", "itunes:summary", "dc:description")
    if not summary.value:
        found = [_media_text(node), node.words("itunes:subtitle", "source:markdown")]
        found += [_media_text(group) for group in node.nodes("media:group")]
        summary = next((words for words in found if words.value), documents.NO_TEXT)
    return (summary, content) if content.value else (documents.NO_TEXT, summary)


def _media_text(node: XmlNode) -> documents.DraftText:
    """Returns Media RSS' description: text with its lines, unless it is HTML."""
    words = node.words("media:description")
    is_html = words.kind == "html" or markup.is_markup(words.value)
    return replace(words, kind="html" if is_html else "text")


def _read_authors(node: XmlNode) -> list[documents.Author]:
    """Returns the authors: Atom's are the fullest; then RSS' and Dublin Core's; iTunes' if there are no others."""
    found = [_read_person(child) for child in node.nodes("atom:author")]
    for names in (("author", "managingeditor"), ("dc:creator",), ("dc:author",), ("itunes:author",)):
        if not found:
            found = [parse_person(text) for text in node.texts(*names)]
    return list(dict.fromkeys(author for author in found if author != documents.Author()))


def _read_person(node: XmlNode) -> documents.Author:
    if len(node.element) == 0:
        return parse_person(element_text(node.element))
    uri = node.text("atom:uri", "atom:url", "uri")
    return documents.Author(node.text("atom:name", "name"), node.text("atom:email", "email"), uri)


def _read_categories(node: XmlNode) -> list[documents.ParsedCategory]:
    found = []
    for child in node.all("atom:category"):
        term = child.get("term", "").strip() or element_text(child)
        found.append(documents.ParsedCategory(term, child.get("scheme", ""), child.get("label", "").strip()))
    found += [documents.ParsedCategory(element_text(child), child.get("domain", "")) for child in node.all("category")]
    found += [documents.ParsedCategory(text) for text in node.texts("dc:subject")]
    found += [documents.ParsedCategory(child.get("text", "").strip()) for child in node.all("itunes:category")]
    if not found:
        words = (word for text in node.texts("itunes:keywords") for word in text.split(","))
        found = [documents.ParsedCategory(word.strip()) for word in words]
    by_term: dict[str, documents.ParsedCategory] = {}
    for category in found:
        if category.term:
            by_term.setdefault(category.term, category)
    return list(by_term.values())


def _read_enclosures(node: XmlNode) -> Iterator[documents.Enclosure]:
    seconds = parse_duration(node.text("itunes:duration"))
    named = [(child, child.get("url", ""), "") for child in node.all("enclosure")]
    links = _find_links(node, "enclosure")
    for child, url, title in (*named, *((link, link.get("href", ""), link.get("title", "")) for link in links)):
        length = parse_whole(child.get("length", ""))
        yield documents.Enclosure(url, child.get("type", "").strip(), length, seconds, title.strip())
        seconds = None  # for the first one only


def _media_enclosure(node: XmlNode) -> documents.Enclosure:
    get = node.element.get
    length, seconds = parse_whole(get("fileSize", "")), parse_duration(get("duration", ""))
    return documents.Enclosure(get("url", ""), get("type", "").strip(), length, seconds, node.text("media:title"))


def _is_image(node: XmlNode) -> bool:
    return node.element.get("medium") == "image" or node.element.get("type", "").startswith("image/")


def _entry_image(node: XmlNode, media: list[XmlNode]) -> str:
    """Returns the entry's picture: a thumbnail or cover first, then any picture."""
    places = [node, *node.nodes("media:group"), *media]
    found = [child.get("url", "") for place in places for child in place.all("media:thumbnail")]
    found += [child.get("href", "") for child in node.all("itunes:image")]
    found += [child.element.get("url", "") for child in media if _is_image(child)]
    found += [child.text("url") for child in node.nodes("image")]
    return next((url.strip() for url in found if url.strip()), "")


def _read_source(node: XmlNode) -> documents.EntrySource | None:
    for child in node.nodes("atom:source"):
        return documents.EntrySource(child.text("atom:title"), _find_href(child, "self"), _page_link(child))
    for element in node.all("source"):
        return documents.EntrySource(element_text(element), element.get("url", ""))
    return None


def _read_point(node: XmlNode) -> documents.Point | None:
    written = node.text("georss:point")
    for place in node.nodes("georss:where"):
        for point in place.nodes("gml:point"):
            written = written or point.text("gml:pos")
    if not written:
        written = f"{node.text('geo:lat')} {node.text('geo:long')}"
    numbers = written.replace(",", " ").split()
    if len(numbers) < 2 or not all(_NUMBER.fullmatch(number) for number in numbers[:2]):
        return None
    return documents.make_point(float(numbers[0]), float(numbers[1]))


def parse_whole(text: str) -> int | None:
    """Returns a positive number of at most 15 digits; zero stands for unknown in most feeds that have it."""
    text = text.strip()
    return int(text) or None if text.isascii() and text.isdigit() and len(text) <= 15 else None


def parse_duration(text: str) -> int | None:
    """Returns the seconds of `5025`, `83:45` or `1:23:45`; None for anything else."""
    parts = text.strip().split(":")
    if not text.strip() or len(parts) > 3:
        return None
    seconds = 0.0
    for part in parts:
        if not re.fullmatch(r"\d{1,9}(\.\d{1,6})?", part.strip(), re.ASCII):
            return None
        seconds = seconds * 60 + float(part)
    return int(seconds) if 0 < seconds < _MAX_SECONDS else None


_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MAX_TTL_MINUTES = 525_600


def read_feed_head(node: XmlNode, root: XmlNode) -> documents.FeedDraft:
    """Reads a <channel> or an Atom <feed>. `root` is around it: RDF has the picture beside the channel."""
    draft = documents.FeedDraft(node.base)
    draft.id = node.text("atom:id") or node.element.get(_ABOUT, "").strip()
    draft.link = _page_link(node)
    draft.title = node.words("title", "atom:title", "dc:title")
    draft.subtitle = node.words("description", "atom:subtitle", "atom:tagline", "itunes:summary", "dc:description")
    draft.updated = _first_date(node, *_FEED_UPDATED)
    draft.language = node.text("language") or node.language or root.language
    draft.rights = node.words("copyright", "atom:rights", "atom:copyright", "dc:rights")
    draft.image = _feed_image(node) or _feed_image(root)
    draft.icon = node.text("atom:icon", "webfeeds:icon")
    draft.authors = _read_authors(node)
    draft.categories = _read_categories(node)
    _read_updating(draft, node)
    return draft


_FEED_UPDATED = ("atom:updated", "atom:modified", "lastbuilddate", "pubdate", "dc:date", "dcterms:modified")


def _read_updating(draft: documents.FeedDraft, node: XmlNode) -> None:
    """Reads the places and times for the next request."""
    draft.self_link = _find_href(node, "self") or node.text("source:self")
    draft.next_link = _find_href(node, "next")
    draft.new_address = node.text("itunes:new-feed-url")
    draft.hubs = [link.get("href", "").strip() for link in _find_links(node, "hub")]
    draft.cloud = next((cloud for child in node.all("cloud") if (cloud := _read_cloud(child))), None)
    draft.cloud_url = node.text("source:cloud")
    minutes = parse_whole(node.text("ttl"))
    draft.ttl_minutes = None if minutes is None else min(minutes, _MAX_TTL_MINUTES)
    draft.skip_hours = _parse_hours(element_text(hour) for skip in node.nodes("skiphours") for hour in skip.all("hour"))
    draft.skip_days = parse_days(element_text(day) for skip in node.nodes("skipdays") for day in skip.all("day"))


def _read_cloud(element: etree._Element) -> documents.Cloud | None:
    domain, port, path = (
        element.get(name, usual).strip() for name, usual in (("domain", ""), ("port", "80"), ("path", "/"))
    )
    return make_cloud(domain, port, path, element.get("registerProcedure", ""), element.get("protocol", ""))


def make_cloud(domain: str, port: str, path: str, procedure: str, protocol: str) -> documents.Cloud | None:
    """Returns the cloud; None without a domain and a port."""
    number = parse_whole(port)
    if not domain or number is None or number > 65535:
        return None
    return documents.Cloud(domain, number, path, procedure.strip(), protocol.strip().lower())


def _parse_hours(texts: Iterable[str]) -> list[int]:
    """Returns hours from 0 to 23; RSS 0.91 counts to 24."""
    return sorted({int(text) % 24 for text in texts if re.fullmatch(r"\d\d?", text, re.ASCII) and int(text) <= 24})


def parse_days(texts: Iterable[str]) -> list[int]:
    """Returns days of the week by their English names, Monday as 0."""
    return sorted({_DAYS.index(text.lower()) for text in texts if text.lower() in _DAYS})


def _feed_image(node: XmlNode) -> str:
    """Returns RSS' picture, iTunes' or Atom's logo."""
    found = [child.text("url") for child in node.nodes("image")]
    found += [child.get("href", "") for child in node.all("itunes:image")]
    found += node.texts("atom:logo")
    found += [child.get("url", "") for child in node.all("media:thumbnail")]
    return next((url.strip() for url in found if url.strip()), "")
