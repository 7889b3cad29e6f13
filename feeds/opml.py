"""Reads and writes lists of feeds as OPML (http://opml.org/spec2.opml).

Most lists are written by programs, some by hand: attributes in any case, bare ampersands and wrong encodings are
accepted. Document types are refused: no list needs them, and entities are bombs.

PURE: imports neither Django, Celery, Redis nor the network; the time is an argument.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from email.utils import format_datetime
from typing import TypeAlias
from urllib.parse import quote
from xml.etree import ElementTree as ET
from xml.parsers import expat

from . import addresses
from .addresses import FeedLocation
from .errors import FeedAddressError, OpmlError
from .parser import charset

CategoryPath: TypeAlias = tuple[str, ...]
"""A category with those around it, the outermost first."""


@dataclass(frozen=True, slots=True)
class ListedFeed:
    """A feed in a list. `categories` are all categories that it stands in.

    Texts have no line breaks, and are empty if not given. `site` is the address of its pages, unchecked.
    """

    address: FeedLocation
    title: str = ""
    site: str = ""
    description: str = ""
    language: str = ""
    categories: tuple[CategoryPath, ...] = ()


@dataclass(frozen=True, slots=True)
class LeftOutOutline:
    """An outline left out, since it is no feed that can be fetched: its line, its name, and the reason."""

    line: int
    text: str
    why: str


@dataclass(frozen=True, slots=True)
class FeedList:
    """A list that was read. `duplicates` counts outlines that repeat a feed; their categories are with the first.

    `left_out` has the first outlines left out, `left_out_in_all` their number.
    """

    title: str = ""
    subscriptions: tuple[ListedFeed, ...] = ()
    duplicates: int = 0
    left_out: tuple[LeftOutOutline, ...] = ()
    left_out_in_all: int = 0


@dataclass(frozen=True, slots=True)
class OpmlLimits:
    """The limits of a list. Longer texts are cut; a list beyond any other limit is refused."""

    max_bytes: int = 20_000_000
    max_depth: int = 50
    max_outlines: int = 100_000
    text_characters: int = 500
    left_out: int = 1_000


_XML_DECLARATION = re.compile(r"^\s*<\?xml[^>]*>")


_FEED_TYPES = frozenset({"rss", "atom", "json", "feed", "rdf", "jsonfeed"})
_OTHER_LISTS = frozenset({"include", "link"})
_MAX_TAGS = 20
_USERINFO = re.compile(r"//[^/?#]*@")


def parse_opml(data: bytes, limits: OpmlLimits | None = None) -> FeedList:
    """Reads the feeds of a list, each once. Raises OpmlError, with a sentence for the user."""
    limits = limits or OpmlLimits()
    if len(data) > limits.max_bytes:
        raise OpmlError(f"This file has {len(data):,} bytes; the limit is {limits.max_bytes:,}.")
    try:
        return _OpmlReader(limits).read(data.lstrip())
    except (expat.ExpatError, LookupError, ValueError):
        pass  # expat knows few encodings, and reports others by three kinds of errors
    text = _XML_DECLARATION.sub("", charset.decode_document(data), count=1).lstrip("\ufeff \t\r\n")
    try:
        return _OpmlReader(limits).read(charset.mend_references(charset.strip_illegal(text)))
    except expat.ExpatError as error:
        what = expat.ErrorString(error.code)
        raise OpmlError(f"This is not OPML: {what} in line {error.lineno}.") from error


@dataclass(slots=True)
class _OpmlReader:
    limits: OpmlLimits
    subscriptions: dict[str, ListedFeed] = field(default_factory=dict)
    left_out: list[LeftOutOutline] = field(default_factory=list)
    left_out_in_all: int = 0
    outlines: int = 0
    duplicates: int = 0
    title: str = ""
    _names: list[str] = field(default_factory=list)
    """The open elements, the outermost first."""
    _folders: list[str] = field(default_factory=list)
    """The category of each open outline, empty if it is none."""
    _parser: expat.XMLParserType = field(default_factory=expat.ParserCreate)

    def read(self, data: bytes | str) -> FeedList:
        """Reads the document. Raises OpmlError, and ExpatError if it is no XML."""
        self._parser.StartDoctypeDeclHandler = _refuse_doctype
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text
        self._parser.Parse(data, True)
        feeds, title = tuple(self.subscriptions.values()), self._short(self.title)
        return FeedList(title, feeds, self.duplicates, tuple(self.left_out), self.left_out_in_all)

    def _start(self, name: str, attributes: Mapping[str, str]) -> None:
        name = _local_name(name)
        if not self._names and name != "opml":
            raise OpmlError(f"This is not OPML: it begins with <{name[:50]}>.")
        self._names.append(name)
        if len(self._names) > self.limits.max_depth:
            raise OpmlError(f"This list is nested more than {self.limits.max_depth} deep.")
        if name == "outline":
            self._outline({_local_name(key): value for key, value in attributes.items()})

    def _end(self, name: str) -> None:
        if self._names.pop() == "outline":
            self._folders.pop()

    def _text(self, text: str) -> None:
        if self._names == ["opml", "head", "title"] and len(self.title) < self.limits.text_characters:
            self.title += text

    def _outline(self, values: Mapping[str, str]) -> None:
        self.outlines += 1
        if self.outlines > self.limits.max_outlines:
            raise OpmlError(f"This list has more than {self.limits.max_outlines:,} outlines.")
        kind = values.get("type", "").strip().lower()
        name = self._short(values.get("text", "")) or self._short(values.get("title", ""))
        url = values.get("xmlurl", "").strip() or (values.get("url", "").strip() if kind in _FEED_TYPES else "")
        is_feed = bool(url) or kind in _FEED_TYPES
        if is_feed:
            self._feed(url, name, values)
        elif kind in _OTHER_LISTS:
            self._leave_out(name, "A link to a page or another list is not imported.")
        self._folders.append("" if is_feed else name)

    def _feed(self, url: str, name: str, values: Mapping[str, str]) -> None:
        try:
            address = addresses.read_address(url)
        except FeedAddressError as error:
            self._leave_out(name or _USERINFO.sub("//", url), str(error))
            return
        title = self._short(values.get("title", "")) or name
        new = ListedFeed(
            address,
            title="" if title == url else title,
            site=self._short(values.get("htmlurl", "")),
            description=self._short(values.get("description", "")),
            language=self._short(values.get("language", "")),
            categories=self._categories(values.get("category", "")),
        )
        before = self.subscriptions.get(address.key)
        if before is not None:
            self.duplicates += 1
            new = _unite_feeds(before, new)
        self.subscriptions[address.key] = new

    def _categories(self, tags: str) -> tuple[CategoryPath, ...]:
        """The category around the outline, then those it names: slash-delimited, separated by commas (OPML 2.0)."""
        paths = [self._folders, *(tag.split("/") for tag in tags.split(",", _MAX_TAGS)[:_MAX_TAGS])]
        short = (tuple(filter(None, map(self._short, path))) for path in paths)
        # No deeper than can be written and read again.
        return tuple(dict.fromkeys(path[: self.limits.max_depth - 3] for path in short if path))

    def _leave_out(self, text: str, why: str) -> None:
        self.left_out_in_all += 1
        if len(self.left_out) < self.limits.left_out:
            self.left_out.append(LeftOutOutline(self._parser.CurrentLineNumber, self._short(text), why))

    def _short(self, text: str) -> str:
        return " ".join(text.split())[: self.limits.text_characters].rstrip()


def _refuse_doctype(*_: object) -> None:
    raise OpmlError("This list declares a document type, which is not allowed.")


def _local_name(name: str) -> str:
    return name.rpartition(":")[2].lower()


def _unite_feeds(one: ListedFeed, other: ListedFeed) -> ListedFeed:
    texts = {name: getattr(one, name) or getattr(other, name) for name in ("title", "site", "description", "language")}
    return replace(one, **texts, categories=tuple(dict.fromkeys((*one.categories, *other.categories))))


def write_opml(
    subscriptions: Iterable[ListedFeed], title: str, created: datetime, *, with_passwords: bool = False
) -> bytes:
    """Writes the list, in UTF-8. A feed of several categories stands in each of them. `created` is aware, in UTC.

    Users and passwords are left out unless requested: lists are passed on.
    """
    opml = ET.Element("opml", version="2.0")
    head = ET.SubElement(opml, "head")
    ET.SubElement(head, "title").text = charset.strip_illegal(title)
    ET.SubElement(head, "dateCreated").text = format_datetime(created, usegmt=True)
    folders: dict[CategoryPath, ET.Element] = {(): ET.SubElement(opml, "body")}
    for subscription in subscriptions:
        attributes = _outline_attributes(subscription, with_passwords=with_passwords)
        for path in subscription.categories or ((),):
            ET.SubElement(_find_folder(folders, path), "outline", attributes)
    ET.indent(opml)
    written: bytes = ET.tostring(opml, encoding="utf-8", xml_declaration=True)
    return written + b"\n"


def _find_folder(folders: dict[CategoryPath, ET.Element], path: CategoryPath) -> ET.Element:
    for depth in range(1, len(path) + 1):
        if path[:depth] not in folders:
            name = charset.strip_illegal(path[depth - 1])
            folders[path[:depth]] = ET.SubElement(folders[path[: depth - 1]], "outline", text=name, title=name)
    return folders[path]


def _outline_attributes(subscription: ListedFeed, *, with_passwords: bool) -> dict[str, str]:
    address = subscription.address
    attributes = {
        "type": "rss",  # for feeds of any format, as is usual
        "text": subscription.title or address.url,  # required
        "title": subscription.title,
        "xmlUrl": _url_with_user(address) if with_passwords and address.user else address.url,
        "htmlUrl": subscription.site,
        "description": subscription.description,
        "language": subscription.language,
    }
    return {name: charset.strip_illegal(value) for name, value in attributes.items() if value}


def _url_with_user(address: FeedLocation) -> str:
    scheme, _, rest = address.url.partition("://")
    return f"{scheme}://{quote(address.user, safe='')}:{quote(address.password, safe='')}@{rest}"
