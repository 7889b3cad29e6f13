"""From the element of an entry, of any XML format, to its draft. PURE."""

import re
from collections.abc import Iterator
from datetime import datetime

from lxml import etree

from . import dates, people
from .documents import Author, Category, Enclosure, Point, Source
from .drafts import NOTHING, EntryDraft, Words
from .elements import Node, text_of

_ABOUT = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}about"
_PUBLISHED = (
    *("atom:published", "pubdate", "atom:issued", "dcterms:issued", "dc:date", "dcterms:created", "atom:created"),
    *("published", "date"),
)
_UPDATED = ("atom:updated", "atom:modified", "dcterms:modified", "updated", "lastbuilddate")
_RELATION = "http://www.iana.org/assignments/relation/"
_MAX_SECONDS = 10_000_000
_NUMBER = re.compile(r"[+-]?\d{1,3}(?:\.\d{1,15})?", re.ASCII)


def read(node: Node) -> EntryDraft:
    """What an <item> or an Atom <entry> holds."""
    draft = EntryDraft(node.base)
    draft.id = node.text("guid", "atom:id") or node.element.get(_ABOUT, "").strip()
    draft.link = link(node) or _permalink(node)
    draft.title = node.words("title", "atom:title", "dc:title", "media:title", "itunes:title")
    draft.published = first_date(node, *_PUBLISHED)
    draft.updated = first_date(node, *_UPDATED)
    draft.summary, draft.content = _texts(node)
    draft.authors = authors(node)
    draft.categories = categories(node)
    media = [child for group in (node, *node.nodes("media:group")) for child in group.nodes("media:content")]
    draft.enclosures = list(_enclosures(node))
    urls = {enclosure.url for enclosure in draft.enclosures}
    draft.enclosures += [
        _media_enclosure(child) for child in media if child.element.get("url") in urls or not _is_image(child)
    ]
    draft.image = _image(node, [child for child in media if child.element.get("url") not in urls])
    draft.comments = node.text("comments") or _reply_page(node)
    draft.language = node.language
    draft.source = _source(node)
    draft.point = _point(node)
    return draft


def first_date(node: Node, *names: str) -> datetime | None:
    """The first date of these names that can be read."""
    return next((moment for text in node.texts(*names) if (moment := dates.parse(text))), None)


def relation(element: etree._Element) -> str:
    """What an Atom link is to its entry; `alternate` if it does not say (RFC 4287, 4.2.7.2)."""
    return element.get("rel", "alternate").strip().lower().removeprefix(_RELATION) or "alternate"


def link(node: Node) -> str:
    """The page: RSS' <link>, or the alternate of Atom that is most probably for people."""
    alternates = [
        child for child in node.all("atom:link", "link") if relation(child) == "alternate" and child.get("href")
    ]
    written = node.text("link")
    if written or not alternates:
        return written
    pages = [child for child in alternates if "html" in child.get("type", "html")]
    return (pages or alternates)[0].get("href", "").strip()


def links(node: Node, *relations: str) -> Iterator[etree._Element]:
    """Links of Atom, in Atom or elsewhere, of these relations."""
    for child in node.all("atom:link", "link"):
        if child.get("href", "").strip() and relation(child) in relations:
            yield child


def href(node: Node, *relations: str) -> str:
    return next((child.get("href", "").strip() for child in links(node, *relations)), "")


def _permalink(node: Node) -> str:
    """A guid is the page's address unless it says otherwise (RSS 2.0)."""
    for guid in node.all("guid"):
        text = text_of(guid)
        if text.startswith(("http://", "https://")) and guid.get("isPermaLink", "true").strip().lower() != "false":
            return text
    return ""


def _texts(node: Node) -> tuple[Words, Words]:
    """Summary and content. Where there is only one of them, whatever it is called, it is the content."""
    content = node.words("content:encoded", "atom:content", "content", "xhtml:body", "xhtml:div")
    summary = node.words("description", "atom:summary", "summary", "itunes:summary", "dc:description")
    if not summary.value:
        summary = node.words("media:description", "itunes:subtitle", "source:markdown")
        summary = summary if summary.value else _group_description(node)
    return (summary, content) if content.value else (NOTHING, summary)


def _group_description(node: Node) -> Words:
    found = (group.words("media:description") for group in node.nodes("media:group"))
    return next((words for words in found if words.value), NOTHING)


def authors(node: Node) -> list[Author]:
    """Atom's are the fullest; then RSS' and Dublin Core's; iTunes' where there is nobody else."""
    found = [_person(child) for child in node.nodes("atom:author")]
    for names in (("author", "managingeditor"), ("dc:creator",), ("itunes:author",)):
        if not found:
            found = [people.parse(text) for text in node.texts(*names)]
    return list(dict.fromkeys(author for author in found if author != Author()))


def _person(node: Node) -> Author:
    if len(node.element) == 0:
        return people.parse(text_of(node.element))
    uri = node.text("atom:uri", "atom:url", "uri")
    return Author(node.text("atom:name", "name"), node.text("atom:email", "email"), uri)


def categories(node: Node) -> list[Category]:
    found = [_atom_category(child) for child in node.all("atom:category")]
    found += [Category(text_of(child), child.get("domain", "")) for child in node.all("category")]
    found += [Category(text) for text in node.texts("dc:subject")]
    found += [Category(child.get("text", "").strip()) for child in node.all("itunes:category")]
    if not found:
        found = [Category(word.strip()) for text in node.texts("itunes:keywords") for word in text.split(",")]
    by_term: dict[str, Category] = {}
    for category in found:
        if category.term:
            by_term.setdefault(category.term, category)
    return list(by_term.values())


def _atom_category(element: etree._Element) -> Category:
    term = element.get("term", "").strip() or text_of(element)
    return Category(term, element.get("scheme", ""), element.get("label", "").strip())


def _enclosures(node: Node) -> Iterator[Enclosure]:
    seconds = duration(node.text("itunes:duration"))
    for child in node.all("enclosure"):
        yield Enclosure(child.get("url", ""), child.get("type", "").strip(), whole(child.get("length", "")), seconds)
        seconds = None  # of the first one only
    for child in links(node, "enclosure"):
        length, title = whole(child.get("length", "")), child.get("title", "").strip()
        yield Enclosure(child.get("href", ""), child.get("type", "").strip(), length, seconds, title)
        seconds = None


def _media_enclosure(node: Node) -> Enclosure:
    get = node.element.get
    return Enclosure(
        get("url", ""),
        get("type", "").strip(),
        whole(get("fileSize", "")),
        duration(get("duration", "")),
        node.text("media:title"),
    )


def _is_image(node: Node) -> bool:
    return node.element.get("medium") == "image" or node.element.get("type", "").startswith("image/")


def _image(node: Node, media: list[Node]) -> str:
    """A picture for the entry as a whole: what was made for that, else what is a picture."""
    places = [node, *node.nodes("media:group"), *media]
    found = [child.get("url", "") for place in places for child in place.all("media:thumbnail")]
    found += [child.get("href", "") for child in node.all("itunes:image")]
    found += [child.element.get("url", "") for child in media if _is_image(child)]
    found += [child.text("url") for child in node.nodes("image")]
    return next((url.strip() for url in found if url.strip()), "")


def _reply_page(node: Node) -> str:
    return next((child.get("href", "") for child in links(node, "replies") if "html" in child.get("type", "html")), "")


def _source(node: Node) -> Source | None:
    for child in node.nodes("atom:source"):
        return Source(child.text("atom:title"), href(child, "self"), link(child))
    for element in node.all("source"):
        return Source(text_of(element), element.get("url", ""))
    return None


def _point(node: Node) -> Point | None:
    written = node.text("georss:point")
    for place in node.nodes("georss:where"):
        for point in place.nodes("gml:point"):
            written = written or point.text("gml:pos")
    if not written:
        written = f"{node.text('geo:lat')} {node.text('geo:long')}"
    numbers = written.replace(",", " ").split()
    if len(numbers) < 2 or not all(_NUMBER.fullmatch(number) for number in numbers[:2]):
        return None
    latitude, longitude = float(numbers[0]), float(numbers[1])
    return Point(latitude, longitude) if abs(latitude) <= 90 and abs(longitude) <= 180 else None


def whole(text: str) -> int | None:
    """A positive number of at most 15 digits; zero stands for unknown in most feeds that have it."""
    text = text.strip()
    return int(text) or None if text.isascii() and text.isdigit() and len(text) <= 15 else None


def duration(text: str) -> int | None:
    """Seconds of `5025`, `83:45` or `1:23:45`; None for anything else."""
    parts = text.strip().split(":")
    if not text.strip() or len(parts) > 3:
        return None
    seconds = 0.0
    for part in parts:
        if not re.fullmatch(r"\d{1,9}(\.\d{1,6})?", part.strip(), re.ASCII):
            return None
        seconds = seconds * 60 + float(part)
    return int(seconds) if 0 < seconds < _MAX_SECONDS else None
