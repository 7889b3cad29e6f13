"""Reads lists of feeds (http://opml.org/spec2.opml). PURE.

Most of them were written by programs, some by hand: attributes in any case, bare ampersands and wrong encodings are
read all the same. Document types are not: nobody needs them, and entities are bombs.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from xml.parsers import expat

from .. import addresses
from ..errors import AddressError, OpmlError
from . import mending
from .outlines import FeedList, LeftOut, Limits, Path, Subscription

_FEED_TYPES = frozenset({"rss", "atom", "json", "feed", "rdf", "jsonfeed"})
_OTHER_LISTS = frozenset({"include", "link"})
_MOST_TAGS = 20
_USERINFO = re.compile(r"//[^/?#]*@")


def parse(data: bytes, limits: Limits | None = None) -> FeedList:
    """The feeds of a list, each once. Raises OpmlError, with a sentence for whoever brought it."""
    limits = limits or Limits()
    if len(data) > limits.max_bytes:
        raise OpmlError(f"This list has {len(data):,} bytes, more than the {limits.max_bytes:,} that are read.")
    try:
        return _Reader(limits).read(data.lstrip())
    except (expat.ExpatError, LookupError, ValueError):
        pass  # expat knows few encodings, and says so in three ways
    try:
        return _Reader(limits).read(mending.mended(data))
    except expat.ExpatError as error:
        what = expat.ErrorString(error.code)
        raise OpmlError(f"This is no OPML: {what} in line {error.lineno}.") from error


@dataclass(slots=True)
class _Reader:
    """Follows a document from outline to outline."""

    limits: Limits
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)
    left_out_in_all: int = 0
    outlines: int = 0
    duplicates: int = 0
    title: str = ""
    _names: list[str] = field(default_factory=list)
    """The elements around the place that is read."""
    _folders: list[str] = field(default_factory=list)
    """For each outline around it the category that it is, empty if it is none."""
    _parser: expat.XMLParserType = field(default_factory=expat.ParserCreate)

    def read(self, data: bytes | str) -> FeedList:
        """Raises OpmlError, and ExpatError for what is no XML."""
        self._parser.StartDoctypeDeclHandler = _refuse_doctype
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text
        self._parser.Parse(data, True)
        return FeedList(
            self._short(self.title),
            tuple(self.subscriptions.values()),
            self.duplicates,
            tuple(self.left_out),
            self.left_out_in_all,
        )

    def _start(self, name: str, attributes: Mapping[str, str]) -> None:
        name = _local(name)
        if not self._names and name != "opml":
            raise OpmlError(f"This is no OPML: it begins with <{name[:50]}>.")
        self._names.append(name)
        if len(self._names) > self.limits.max_depth:
            raise OpmlError(f"This list is nested more than {self.limits.max_depth} deep.")
        if name == "outline":
            self._outline({_local(key): value for key, value in attributes.items()})

    def _end(self, name: str) -> None:
        if self._names.pop() == "outline":
            self._folders.pop()

    def _text(self, text: str) -> None:
        if self._names == ["opml", "head", "title"] and len(self.title) < self.limits.text_characters:
            self.title += text

    def _outline(self, said: Mapping[str, str]) -> None:
        self.outlines += 1
        if self.outlines > self.limits.max_outlines:
            raise OpmlError(f"This list has more than {self.limits.max_outlines:,} outlines.")
        kind = said.get("type", "").strip().lower()
        name = self._short(said.get("text", "")) or self._short(said.get("title", ""))
        url = said.get("xmlurl", "").strip() or (said.get("url", "").strip() if kind in _FEED_TYPES else "")
        is_feed = bool(url) or kind in _FEED_TYPES
        if is_feed:
            self._feed(url, name, said)
        elif kind in _OTHER_LISTS:
            self._leave_out(name, "It points to a page or another list, which is not read.")
        self._folders.append("" if is_feed else name)

    def _feed(self, url: str, name: str, said: Mapping[str, str]) -> None:
        try:
            address = addresses.read(url)
        except AddressError as error:
            self._leave_out(name or _USERINFO.sub("//", url), str(error))
            return
        title = self._short(said.get("title", "")) or name
        new = Subscription(
            address,
            title="" if title == url else title,
            site=self._short(said.get("htmlurl", "")),
            description=self._short(said.get("description", "")),
            language=self._short(said.get("language", "")),
            categories=self._categories(said.get("category", "")),
        )
        before = self.subscriptions.get(address.key)
        if before is not None:
            self.duplicates += 1
            new = _united(before, new)
        self.subscriptions[address.key] = new

    def _categories(self, tags: str) -> tuple[Path, ...]:
        """Where it stands, then those it names: slash-delimited, separated by commas (OPML 2.0)."""
        paths = [self._folders, *(tag.split("/") for tag in tags.split(",", _MOST_TAGS)[:_MOST_TAGS])]
        short = (tuple(filter(None, map(self._short, path))) for path in paths)
        # No deeper than what can be written and read again.
        return tuple(dict.fromkeys(path[: self.limits.max_depth - 3] for path in short if path))

    def _leave_out(self, text: str, why: str) -> None:
        self.left_out_in_all += 1
        if len(self.left_out) < self.limits.left_out:
            self.left_out.append(LeftOut(self._parser.CurrentLineNumber, self._short(text), why))

    def _short(self, text: str) -> str:
        """On one line, no longer than is kept."""
        return " ".join(text.split())[: self.limits.text_characters].rstrip()


def _refuse_doctype(*_: object) -> None:
    raise OpmlError("This list declares a document type. That is not read: lists of feeds need none.")


def _local(name: str) -> str:
    """Without a namespace's prefix, in lower case."""
    return name.rpartition(":")[2].lower()


def _united(one: Subscription, other: Subscription) -> Subscription:
    return replace(
        one,
        title=one.title or other.title,
        site=one.site or other.site,
        description=one.description or other.description,
        language=one.language or other.language,
        categories=tuple(dict.fromkeys((*one.categories, *other.categories))),
    )
