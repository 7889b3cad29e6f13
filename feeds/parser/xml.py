"""Elements of a feed by name, whatever prefix and spelling of the namespace it uses."""

import base64
import binascii
import html
import re
from collections.abc import Callable, Iterator

from lxml import etree

from . import markup
from .documents import NO_TEXT, DraftText, TextKind

_SPELLINGS = {
    "": (
        "http://purl.org/rss/1.0/",
        "http://my.netscape.com/rdf/simple/0.9/",
        "http://channel.netscape.com/rdf/simple/0.9/",
        "http://backend.userland.com/rss2",
        "http://backend.userland.com/rss",
        "http://blogs.law.harvard.edu/tech/rss",
        "http://my.netscape.com/publish/formats/rss-0.91.dtd",
        "http://purl.org/net/rss1.1#",
    ),
    "atom": ("http://www.w3.org/2005/atom", "https://www.w3.org/2005/atom", "http://purl.org/atom/ns#"),
    "content": ("http://purl.org/rss/1.0/modules/content/",),
    "dc": ("http://purl.org/dc/elements/1.1/", "http://purl.org/dc/elements/1.0/"),
    "dcterms": ("http://purl.org/dc/terms/",),
    "itunes": ("http://www.itunes.com/dtds/podcast-1.0.dtd", "http://example.com/dtds/podcast-1.0.dtd"),
    "media": ("http://search.yahoo.com/mrss/", "http://search.yahoo.com/mrss"),
    "georss": ("http://www.georss.org/georss", "http://www.georss.org/georss/10"),
    "geo": ("http://www.w3.org/2003/01/geo/wgs84_pos#",),
    "gml": ("http://www.opengis.net/gml",),
    "podcast": (
        "https://podcastindex.org/namespace/1.0",
        "https://github.com/podcastindex-org/podcast-namespace/blob/main/docs/1.0.md",
    ),
    "psc": ("http://podlove.org/simple-chapters", "http://podlove.org/simple-chapters/"),
    "yt": ("http://www.youtube.com/xml/schemas/2015",),
    "webfeeds": ("http://webfeeds.org/rss/1.0",),
    "source": ("https://source.scripting.com/", "http://source.scripting.com/"),
    "rdf": ("http://www.w3.org/1999/02/22-rdf-syntax-ns#",),
    "xhtml": ("http://www.w3.org/1999/xhtml",),
    "xml": ("http://www.w3.org/xml/1998/namespace",),
    "slash": ("http://purl.org/rss/1.0/modules/slash/",),
    "wfw": ("http://wellformedweb.org/commentapi/",),
}
_ATOM_NAMES = frozenset(
    re.findall(
        r"\w+",
        """
        author category content contributor copyright created email entry feed generator icon id issued link logo
        modified name published rights source subtitle summary tagline title updated uri url
        """,
    )
)
_ATOM_ROOTS = frozenset(("feed", "entry"))


def _squeeze_namespace(namespace: str) -> str:
    """Returns a namespace without that in which publishers misspell it: case, spaces, https, what ends it."""
    squeezed = "".join(namespace.split()).lower().rstrip("/#")
    return squeezed.replace("https://", "http://", 1)


_PREFIXES = {_squeeze_namespace(each): prefix for prefix, spellings in _SPELLINGS.items() for each in spellings}


def usual_namespace(prefix: str) -> str:
    known = _SPELLINGS.get(prefix.lower())
    return known[0] if known and prefix else f"urn:undeclared:{prefix}"


def make_namer(root_tag: str) -> Callable[[object], str]:
    """Returns a function for the names of a document's elements: `title`, `atom:title`, `dc:date`; lower case.

    Elements of unknown namespaces have an empty name, unless the namespace is the root's own: tools have put RSS and
    Atom into many, or into none. Comments and the like have none either.
    """
    namespace, _, local = root_tag.rpartition("}")
    namespace, is_atom = _squeeze_namespace(namespace[1:]), local.lower() in _ATOM_ROOTS
    own = "" if namespace in _PREFIXES and not is_atom else namespace
    known: dict[object, str] = {}

    def name(tag: object) -> str:
        found = known.get(tag)
        if found is None:
            found = _prefixed_name(tag, own, is_atom=is_atom) if isinstance(tag, str) else ""
            if len(known) < 1000:  # a feed can invent names without end
                known[tag] = found
        return found

    return name


def _prefixed_name(tag: str, own: str, *, is_atom: bool) -> str:
    namespace, _, local = tag.rpartition("}")
    namespace = _squeeze_namespace(namespace[1:])
    if is_atom and namespace in ("", own) and local.lower() in _ATOM_NAMES:
        return f"atom:{local.lower()}"
    if not namespace or (namespace == own and own not in _PREFIXES):
        return local.lower()
    prefix = _PREFIXES.get(namespace)
    if prefix is None:
        return ""
    return f"{prefix}:{local.lower()}" if prefix else local.lower()


_HTML_TYPES = ("html", "text/html")
_XHTML_TYPES = ("xhtml", "application/xhtml+xml", "xml", "application/xml", "text/xml")
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"


class XmlNode:
    """An element, with its children by their names. `base` is the base of the addresses in it."""

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
        """Returns the base by xml:base, of this element and those around it, else the document's own address."""
        return markup.join_base(self.url, element.base or "") if self.has_bases else self.url

    def nodes(self, *names: str) -> Iterator["XmlNode"]:
        for child in self.all(*names):
            yield XmlNode(child, self.name, self.url, self.has_bases)

    def all(self, *names: str) -> list[etree._Element]:
        return [child for name in names for child in self.children.get(name, ())]

    def texts(self, *names: str) -> list[str]:
        return [text for child in self.all(*names) if (text := element_text(child))]

    def text(self, *names: str) -> str:
        """Returns the first text among the children, by the order of the names."""
        return next((text for child in self.all(*names) if (text := element_text(child))), "")

    def words(self, *names: str) -> DraftText:
        for child in self.all(*names):
            words = self._words_of(child)
            if words.value.strip():
                return words
        return NO_TEXT

    def _words_of(self, element: etree._Element) -> DraftText:
        base = self.base_of(element) if self.has_bases and element.base else None
        if self.name(element.tag).startswith("atom:"):
            return _atom_text(element, base)
        if any(isinstance(child.tag, str) for child in element):
            return DraftText(inner_html(element), "html", base)
        return DraftText(element.text or "", "unsaid", base)


def element_text(element: etree._Element) -> str:
    if len(element) == 0:
        return (element.text or "").strip()
    return "".join(str(part) for part in element.itertext()).strip()


def inner_html(element: etree._Element) -> str:
    """Returns the content of an element as HTML. Changes the element: its descendants lose their namespaces."""
    parts = [html.escape(element.text or "")]
    for child in element:
        for inner in child.iter():
            if isinstance(inner.tag, str):
                inner.tag = inner.tag.rpartition("}")[2].rpartition(":")[2]
        parts.append(etree.tostring(child, encoding="unicode", method="html"))
    return "".join(parts)


def _atom_text(element: etree._Element, base: str | None) -> DraftText:
    """Reads a text construct of Atom 1.0 (RFC 4287, 3.1), or of 0.3, which has a `mode` and media types for types."""
    type_name, mode = element.get("type", "").strip().lower(), element.get("mode", "").strip().lower()
    if mode == "base64" or (type_name and not type_name.startswith("text") and _is_binary(type_name)):
        return _decode_base64(element, type_name, base)
    has_children = any(isinstance(child.tag, str) for child in element)
    if has_children and (type_name in _XHTML_TYPES or type_name in _HTML_TYPES or not type_name or mode == "xml"):
        return DraftText(inner_html(element), "html", base)
    if type_name in _XHTML_TYPES and not has_children:
        return DraftText(html.escape(element.text or ""), "html", base)
    kind: TextKind = "html" if type_name in _HTML_TYPES else "text"
    if kind == "html" and mode == "xml":  # text in a place for inline markup
        return DraftText(html.escape(element.text or ""), "html", base)
    return DraftText(element_text(element) if has_children else element.text or "", kind, base)


def _is_binary(media_type: str) -> bool:
    return "/" in media_type and not media_type.endswith(("+xml", "/xml")) and not media_type.startswith("text/")


def _decode_base64(element: etree._Element, type_name: str, base: str | None) -> DraftText:
    """Decodes Base64: text if its type says so, nothing otherwise."""
    if not (type_name.startswith("text") or type_name in ("", *_HTML_TYPES, *_XHTML_TYPES)):
        return NO_TEXT
    try:
        value = base64.b64decode(re.sub(r"\s+", "", element.text or ""), validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return NO_TEXT
    return DraftText(value, "html" if "html" in type_name else "text", base)
