"""Decodes the bytes of a document, and mends its characters for an XML parser.

Servers name charsets without looking, and declarations may be wrong after a conversion: valid UTF-8 is UTF-8, and
only for other bytes do the declarations count. Without one that fits, the bytes tell: charset-normalizer is asked,
unless they are UTF-8 with some other bytes in it.

A DOCTYPE is always removed: its declarations are never expanded or fetched, so no entity can grow. Everything else
is only mended if the document is not well-formed.
"""

import codecs
import html.entities
import re

from charset_normalizer import from_bytes

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
_WINDOWS_CHARACTERS = {0xDC00 + byte: bytes([byte]).decode("cp1252", "replace") for byte in range(128, 256)}
"""By the surrogates that stand for bytes which are no UTF-8."""


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
    sample = _sample_texts(data)
    for encoding in _declared_charsets(data, content_type):
        if encoding == "cp1252" and _is_dense(sample):  # the default of servers and tools, for texts of other scripts
            continue
        try:
            return data.decode(encoding)
        except (UnicodeDecodeError, LookupError):
            continue
    text = data.decode("utf-8", "surrogateescape")
    if not _is_mostly_utf_8(text) and (guess := _guess_charset(sample)) != "cp1252":
        return data.decode(guess, "replace")
    # UTF-8 with other bytes in it, most often Windows' characters pasted into it; or Windows' characters alone.
    return text.translate(_WINDOWS_CHARACTERS)


_BAD_BYTES_FOR_EACH_VALID = 2
"""In other encodings some bytes look like UTF-8 by chance; in UTF-8 with pasted bytes most characters are valid."""


def _is_mostly_utf_8(text: str) -> bool:
    """Tells whether characters were decoded from UTF-8, for the most part; the bytes that were not are surrogates."""
    bad = len(text) - len(text.encode("utf-8", "ignore").decode())
    beyond_ascii = len(text) - len(text.encode("ascii", "ignore"))
    return bad < _BAD_BYTES_FOR_EACH_VALID * (beyond_ascii - bad)


_SAMPLE_BYTES = 20_000
_BRACKET = re.compile(rb"[<>]")
_HIGH_BYTE = re.compile(rb"[\x80-\xff]")
_HIGH_RUN = re.compile(rb"[\x80-\xff]{3,}")
_MIN_DENSE_BYTES = 16
"""Fewer are no evidence: Привет is a word of several encodings."""
_LATIN_CHARSETS = ["cp1252", "cp1250"]
_OTHER_CHARSETS = [
    *("cp1251", "koi8_r", "cp1253", "cp1255", "cp1256", "cp874"),
    *("cp932", "euc_jp", "gb18030", "big5", "cp949"),
]
_LEAST_COHERENCE = 0.1
_MOST_CHAOS = 0.2


def _sample_texts(data: bytes) -> bytes:
    """Returns the first texts with bytes beyond ASCII, without tags, which would dilute them."""
    found, size, place = list[bytes](), 0, 0
    while size < _SAMPLE_BYTES and (high := _HIGH_BYTE.search(data, place)):
        before = max(data.rfind(bracket, place, high.start()) for bracket in (b"<", b">"))
        after = _BRACKET.search(data, high.end())
        begin, place = max(place, before + 1), after.start() if after else len(data)
        found.append(data[begin:place].strip()[:_SAMPLE_BYTES])
        size += len(found[-1])
    return b"\n".join(found)


def _is_dense(sample: bytes) -> bool:
    """True if most bytes beyond ASCII stand beside others, as in scripts without Latin letters."""
    high = len(_HIGH_BYTE.findall(sample))
    return high >= _MIN_DENSE_BYTES and 2 * sum(map(len, _HIGH_RUN.findall(sample))) >= high


def _guess_charset(sample: bytes) -> str:
    """Returns the most probable encoding; Windows-1252 for Latin letters that another one does not explain better."""
    is_dense = _is_dense(sample)
    charsets = _OTHER_CHARSETS if is_dense else _LATIN_CHARSETS
    matches = from_bytes(sample, cp_isolation=charsets, threshold=_MOST_CHAOS, enable_fallback=False)
    best = matches.best()
    if best is None or (not is_dense and best.coherence < _LEAST_COHERENCE):
        return "cp1252"
    is_windows = any("cp1252" in match.could_be_from_charset for match in matches)
    return "cp1252" if is_windows else best.encoding


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
_PROLOG_PART = re.compile(
    r"<!--.*?(?:-->|\Z)|<\?.*?(?:\?>|\Z)|(?P<element><[A-Za-z_])|(?P<doctype><!DOCTYPE\b)", re.IGNORECASE | re.DOTALL
)
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
_NAMESPACE = re.compile(r"""(\sxmlns(?::[\w.-]{1,31})?\s{0,9}=\s{0,9})("[^"<>]{0,500}"|'[^'<>]{0,500}')""")
_NOT_IN_URI = re.compile(r"[\s{}|\\^`]+")


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
    parts = _PROLOG_PART.finditer(text, 0, _HEAD_CHARACTERS)
    start = next((part for part in parts if part.lastgroup), None)
    if start is None or not start["doctype"]:
        return text, ""
    depth = 0
    for part in _DOCTYPE_PART.finditer(text, start.end()):
        depth += {"[": 1, "]": -1}.get(part[0], 0)
        if part[0] == ">" and depth <= 0:
            return text[: start.start()] + text[part.end() :], text[start.start() : part.end()][:500]
    return text, text[start.start() :][:500]


def mend_xml(text: str) -> str:
    """Mends the most frequent faults: HTML entities, bare ampersands, prefixes, namespaces, text after the end.

    Tags that do not match stay as they are.
    """
    ends = list(_END_OF_DOCUMENT.finditer(text))
    if ends:
        text = text[: ends[-1].end()]
    text = _NAMESPACE.sub(lambda match: match[1] + _NOT_IN_URI.sub("", match[2]), text)
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
