"""From the characters of a document to bytes that an XML parser may be given. PURE.

A DOCTYPE goes always: what it declares is never expanded or fetched, so no entity can grow. Everything else is only
mended when the document is not well-formed as it is.
"""

import html.entities
import re
from dataclasses import dataclass

from . import names

_HEAD_CHARACTERS = 100_000
_JUNK_CHARACTERS = 8_192
_DECLARATION = re.compile(r"\s*<\?xml\b[^>]{0,500}>\s*", re.IGNORECASE)
_DOCUMENT = re.compile(r"<(\?xml\b|rss\b|feed\b|rdf:RDF\b)", re.IGNORECASE)
_FIRST_ELEMENT = re.compile(r"<[A-Za-z_]")
_DOCTYPE = re.compile(r"<!DOCTYPE\b", re.IGNORECASE)
_DOCTYPE_PART = re.compile(r'"[^"]*"|\'[^\']*\'|<!--.*?(?:-->|\Z)|[\[\]>]', re.DOTALL)
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_REFERENCE = re.compile(
    r"<!\[CDATA\[.*?(?:\]\]>|\Z)|<!--.*?(?:-->|\Z)"
    r"|&(?:\#(?P<decimal>[0-9]{1,7});|\#[xX](?P<hexadecimal>[0-9A-Fa-f]{1,6});|(?P<name>[A-Za-z][A-Za-z0-9]{1,31});)?",
    re.DOTALL,
)
_OF_XML = frozenset(("amp", "lt", "gt", "quot", "apos"))
_ENDS = re.compile(r"</(?:rss|feed|rdf:rdf)\s*>", re.IGNORECASE)
_PREFIX = re.compile(r"<([A-Za-z_][\w.-]{0,30}):[A-Za-z_]|\s([A-Za-z_][\w.-]{0,30}):[A-Za-z_][\w.-]{0,60}\s{0,9}=")
_DECLARED_PREFIX = re.compile(r"\sxmlns:([\w.-]{1,31})\s{0,9}=")
_ROOT = re.compile(r"<[A-Za-z_][\w.:-]*")
_MAX_PREFIXES = 50


@dataclass(frozen=True, slots=True)
class Prepared:
    """A document in UTF-8 without declarations; `doctype` is the one that was left out, its start only."""

    text: str
    doctype: str = ""

    @property
    def data(self) -> bytes:
        return self.text.encode()


def prepared(text: str) -> Prepared:
    """The document itself: without what stands before it, its declarations, and characters that XML has not."""
    text = _ILLEGAL.sub("", text)
    if text.lstrip()[:1] != "<":
        start = _DOCUMENT.search(text, 0, _JUNK_CHARACTERS)
        text = text[start.start() :] if start else text
    declared = _DECLARATION.match(text)
    return _without_doctype(text[declared.end() :] if declared else text.lstrip())


def _without_doctype(text: str) -> Prepared:
    element = _FIRST_ELEMENT.search(text, 0, _HEAD_CHARACTERS)
    start = _DOCTYPE.search(text, 0, _HEAD_CHARACTERS)
    if start is None or (element and element.start() < start.start()):
        return Prepared(text)
    depth = 0
    for part in _DOCTYPE_PART.finditer(text, start.end()):
        depth += {"[": 1, "]": -1}.get(part[0], 0)
        if part[0] == ">" and depth <= 0:
            return Prepared(text[: start.start()] + text[part.end() :], text[start.start() : part.end()][:500])
    return Prepared(text, text[start.start() :][:500])


def mended(text: str) -> str:
    """What most often keeps a feed from being well-formed, put right: entities of HTML, bare ampersands, prefixes
    that nobody declared, and what comes after the end. Tags that do not match stay as they are.
    """
    ends = list(_ENDS.finditer(text))
    if ends:
        text = text[: ends[-1].end()]
    return _with_prefixes(_REFERENCE.sub(_mended_reference, text))


def _mended_reference(match: re.Match[str]) -> str:
    whole = match[0]
    if whole[0] == "<":
        return whole
    if match["name"]:
        return whole if match["name"] in _OF_XML else _named(match["name"])
    if match["decimal"] or match["hexadecimal"]:
        code = int(match["decimal"]) if match["decimal"] else int(match["hexadecimal"], 16)
        return whole if code < 0x110000 and not _ILLEGAL.match(chr(code)) else ""
    return "&amp;"


def _named(name: str) -> str:
    found = html.entities.html5.get(name + ";")
    return "".join(f"&#{ord(character)};" for character in found) if found else f"&amp;{name};"


def _with_prefixes(text: str) -> str:
    used = {one or other for one, other in _PREFIX.findall(text)} - {"xml", "xmlns"}
    missing = sorted(used - set(_DECLARED_PREFIX.findall(text)))[:_MAX_PREFIXES]
    root = _ROOT.search(text)
    if not missing or root is None:
        return text
    declared = "".join(f' xmlns:{prefix}="{names.usual_namespace(prefix)}"' for prefix in missing)
    return text[: root.end()] + declared + text[root.end() :]
