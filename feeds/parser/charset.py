"""Decodes the bytes of a document, and mends its characters for an XML parser.

Servers name charsets without looking, and declarations may be wrong after a conversion: valid UTF-8 is UTF-8, and
only for other bytes do the declarations count.

A DOCTYPE is always removed: its declarations are never expanded or fetched, so no entity can grow. Everything else
is only mended if the document is not well-formed.
"""

import codecs
import html.entities
import re

from . import xml

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_UNMARKED_STARTS = ((b"<\0\0\0", "utf-32-le"), (b"\0\0\0<", "utf-32-be"), (b"<\0", "utf-16-le"), (b"\0<", "utf-16-be"))
_XML_ENCODING = re.compile(rb"""<\?xml[^>]{0,200}?encoding\s*=\s*["']\s*([A-Za-z0-9._:-]{1,40})""")
_HTTP_CHARSET = re.compile(r"""charset\s*+=\s*+["']?+\s*+([A-Za-z0-9._:-]{1,40})""", re.IGNORECASE)
# Python knows codecs that no server sends, and some of them take quadratic time.
_KNOWN_CHARSETS = re.compile(
    r"(iso[-_]?8859[-_]\d{1,2}|(windows|cp)[-_]?125\d|koi8[-_][ru]|gbk|gb2312|gb18030|big5(-?hkscs)?|euc[-_](jp|kr)"
    r"|shift[-_]?jis|sjis|iso-2022-(jp|kr)|utf-?(8|16|32)([-_]?[lb]e)?|(us-)?ascii|latin[-_]?\d|mac(intosh|-?roman)"
    r"|ibm\d{3}|cp\d{3}|tis-?620|x-sjis)",
    re.IGNORECASE,
)
# These names mean a larger set, as in the Encoding Standard.
_LARGER_CHARSETS = {
    **dict.fromkeys(("iso-8859-1", "latin1", "latin-1", "us-ascii", "ascii"), "cp1252"),
    **dict.fromkeys(("iso-8859-11", "tis-620"), "cp874"),
    **dict.fromkeys(("gb2312", "gbk"), "gb18030"),
    **dict.fromkeys(("shift_jis", "shift-jis", "x-sjis", "sjis"), "cp932"),
    **{"iso-8859-9": "cp1254", "euc-kr": "cp949", "macintosh": "mac-roman"},
}
_BAD_BYTE = re.compile("[\udc80-\udcff]")


def decode_document(data: bytes, content_type: str = "") -> str:
    """Returns the characters of a document. Never fails: meaningless bytes become U+FFFD."""
    for mark, encoding in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace")
    for start, encoding in _UNMARKED_STARTS:
        if data.startswith(start):
            return data.decode(encoding, "replace")
    if data.isascii():
        return _decode_ascii(data, content_type)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _decode_as_declared(data, content_type)


def _decode_ascii(data: bytes, content_type: str) -> str:
    """Decodes ASCII, unless the document says that it switches between character sets by escapes."""
    if b"\x1b" in data:
        for encoding in _declared_charsets(data, content_type):
            if encoding.startswith("iso-2022"):
                return data.decode(encoding, "replace")
    return data.decode("ascii")


def _decode_as_declared(data: bytes, content_type: str) -> str:
    for encoding in _declared_charsets(data, content_type):
        try:
            return data.decode(encoding)
        except (UnicodeDecodeError, LookupError):
            continue
    # UTF-8 with other bytes in it, most often Windows' characters pasted into it.
    text = data.decode("utf-8", "surrogateescape")
    return _BAD_BYTE.sub(lambda bad: bytes([ord(bad[0]) - 0xDC00]).decode("cp1252", "replace"), text)


def _declared_charsets(data: bytes, content_type: str) -> list[str]:
    """Returns the declared encodings but UTF-8, the server's before the document's (RFC 7303)."""
    names = [found[1] for found in [_HTTP_CHARSET.search(content_type)] if found]
    names += [found[1].decode("ascii") for found in [_XML_ENCODING.search(data[:1024])] if found]
    meant = [_LARGER_CHARSETS.get(name.lower(), name.lower()) for name in names if _KNOWN_CHARSETS.fullmatch(name)]
    return [name for name in meant if not name.startswith(("utf-", "utf8"))]


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
_XML_ENTITIES = frozenset(("amp", "lt", "gt", "quot", "apos"))
_END_OF_DOCUMENT = re.compile(r"</(?:rss|feed|rdf:rdf)\s*>", re.IGNORECASE)
_PREFIX = re.compile(r"<([A-Za-z_][\w.-]{0,30}):[A-Za-z_]|\s([A-Za-z_][\w.-]{0,30}):[A-Za-z_][\w.-]{0,60}\s{0,9}=")
_DECLARED_PREFIX = re.compile(r"\sxmlns:([\w.-]{1,31})\s{0,9}=")
_ROOT = re.compile(r"<[A-Za-z_][\w.:-]*")
_MAX_PREFIXES = 50


def strip_illegal(text: str) -> str:
    return _ILLEGAL.sub("", text)


def prepare_xml(text: str) -> tuple[str, str]:
    """Returns a document without declarations, anything before it and illegal characters; and its DOCTYPE's start."""
    text = strip_illegal(text)
    if text.lstrip()[:1] != "<":
        start = _DOCUMENT.search(text, 0, _JUNK_CHARACTERS)
        text = text[start.start() :] if start else text
    declared = _DECLARATION.match(text)
    return _without_doctype(text[declared.end() :] if declared else text.lstrip())


def _without_doctype(text: str) -> tuple[str, str]:
    element = _FIRST_ELEMENT.search(text, 0, _HEAD_CHARACTERS)
    start = _DOCTYPE.search(text, 0, _HEAD_CHARACTERS)
    if start is None or (element and element.start() < start.start()):
        return text, ""
    depth = 0
    for part in _DOCTYPE_PART.finditer(text, start.end()):
        depth += {"[": 1, "]": -1}.get(part[0], 0)
        if part[0] == ">" and depth <= 0:
            return text[: start.start()] + text[part.end() :], text[start.start() : part.end()][:500]
    return text, text[start.start() :][:500]


def mend_xml(text: str) -> str:
    """Mends the most frequent faults: HTML entities, bare ampersands, undeclared prefixes, text after the end.

    Tags that do not match stay as they are.
    """
    ends = list(_END_OF_DOCUMENT.finditer(text))
    if ends:
        text = text[: ends[-1].end()]
    return _declare_prefixes(mend_references(text))


def mend_references(text: str) -> str:
    """Replaces the entities of HTML by numbers, drops references to illegal characters, and escapes bare ampersands."""
    return _REFERENCE.sub(_mend_reference, text)


def _mend_reference(match: re.Match[str]) -> str:
    whole = match[0]
    if whole[0] == "<":
        return whole
    if match["name"]:
        if match["name"] in _XML_ENTITIES:
            return whole
        found = html.entities.html5.get(f"{match['name']};", "")
        return "".join(f"&#{ord(character)};" for character in found) or f"&amp;{match['name']};"
    if match["decimal"] or match["hexadecimal"]:
        code = int(match["decimal"]) if match["decimal"] else int(match["hexadecimal"], 16)
        return whole if code < 0x110000 and not _ILLEGAL.match(chr(code)) else ""
    return "&amp;"


def _declare_prefixes(text: str) -> str:
    used = {one or other for one, other in _PREFIX.findall(text)} - {"xml", "xmlns"}
    missing = sorted(used - set(_DECLARED_PREFIX.findall(text)))[:_MAX_PREFIXES]
    root = _ROOT.search(text)
    if not missing or root is None:
        return text
    declared = "".join(f' xmlns:{prefix}="{xml.usual_namespace(prefix)}"' for prefix in missing)
    return text[: root.end()] + declared + text[root.end() :]
