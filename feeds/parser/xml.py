"""An element of a feed and its children by name. PURE."""

import base64
import binascii
import html
import re
from collections.abc import Callable, Iterator

from lxml import etree

from . import addresses
from .drafts import NOTHING, Kind, Words

_HTML_TYPES = ("html", "text/html")
_XHTML_TYPES = ("xhtml", "application/xhtml+xml", "xml", "application/xml", "text/xml")
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"


class Node:
    """An element, with its children by their names. `base` is what addresses in it are relative to."""

    def __init__(self, element: etree._Element, name: Callable[[object], str], url: str, has_bases: bool) -> None:
        self.element = element
        self.name = name
        self.url = url
        self.has_bases = has_bases
        self.children: dict[str, list[etree._Element]] = {}
        for child in element:
            self.children.setdefault(name(child.tag), []).append(child)

    @property
    def base(self) -> str:
        return self.base_of(self.element)

    @property
    def language(self) -> str:
        return self.element.get(_LANGUAGE, "") or self.text("dc:language")

    def base_of(self, element: etree._Element) -> str:
        """By xml:base, of this element and those around it, else the document's own address."""
        return addresses.joined(self.url, element.base or "") if self.has_bases else self.url

    def said_base_of(self, element: etree._Element) -> str | None:
        """The same, None where the document says nothing of it."""
        return self.base_of(element) if self.has_bases and element.base else None

    def nodes(self, *names: str) -> Iterator["Node"]:
        """Children of these names, with theirs."""
        for name in names:
            for child in self.children.get(name, ()):
                yield Node(child, self.name, self.url, self.has_bases)

    def all(self, *names: str) -> list[etree._Element]:
        return [child for name in names for child in self.children.get(name, ())]

    def texts(self, *names: str) -> list[str]:
        """What children of these names say, those that say something."""
        return [text for child in self.all(*names) if (text := text_of(child))]

    def text(self, *names: str) -> str:
        """What the first child says that says something, by the order of the names."""
        for name in names:
            for child in self.children.get(name, ()):
                if text := text_of(child):
                    return text
        return ""

    def words(self, *names: str) -> Words:
        """The same with its markup."""
        for child in self.all(*names):
            words = self._words_of(child)
            if words.value.strip():
                return words
        return NOTHING

    def _words_of(self, element: etree._Element) -> Words:
        base = self.said_base_of(element)
        if self.name(element.tag).startswith("atom:"):
            return _atom_words(element, base)
        if any(isinstance(child.tag, str) for child in element):
            return Words(inner_html(element), "html", base)
        return Words(element.text or "", "unsaid", base)


def text_of(element: etree._Element) -> str:
    """All text in an element, without space around it."""
    if len(element) == 0:
        return (element.text or "").strip()
    return "".join(str(part) for part in element.itertext()).strip()


def inner_html(element: etree._Element) -> str:
    """What is in an element, as HTML. Changes the element: its descendants lose their namespaces."""
    parts = [html.escape(element.text or "")]
    for child in element:
        for inner in child.iter():
            if isinstance(inner.tag, str):
                inner.tag = inner.tag.rpartition("}")[2].rpartition(":")[2]
        parts.append(etree.tostring(child, encoding="unicode", method="html"))
    return "".join(parts)


def _atom_words(element: etree._Element, base: str | None) -> Words:
    """A text construct of Atom 1.0 (RFC 4287, 3.1), or of 0.3, which has a `mode` and media types for types."""
    said, mode = element.get("type", "").strip().lower(), element.get("mode", "").strip().lower()
    if mode == "base64" or (said and not said.startswith("text") and _is_binary(said)):
        return _decoded(element, said, base)
    has_children = any(isinstance(child.tag, str) for child in element)
    if has_children and (said in _XHTML_TYPES or said in _HTML_TYPES or not said or mode == "xml"):
        return Words(inner_html(element), "html", base)
    if said in _XHTML_TYPES and not has_children:
        return Words(html.escape(element.text or ""), "html", base)
    kind: Kind = "html" if said in _HTML_TYPES else "text"
    if kind == "html" and mode == "xml":  # text in a place for inline markup
        return Words(html.escape(element.text or ""), "html", base)
    return Words(text_of(element) if has_children else element.text or "", kind, base)


def _is_binary(media_type: str) -> bool:
    return "/" in media_type and not media_type.endswith(("+xml", "/xml")) and not media_type.startswith("text/")


def _decoded(element: etree._Element, said: str, base: str | None) -> Words:
    """What is in Base64: text when its type says so, nothing otherwise."""
    if not (said.startswith("text") or said in ("", *_HTML_TYPES, *_XHTML_TYPES)):
        return NOTHING
    try:
        value = base64.b64decode(re.sub(r"\s+", "", element.text or ""), validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return NOTHING
    return Words(value, "html" if "html" in said else "text", base)
