"""From the bytes of a document to its characters, whatever is said of their encoding. PURE.

Servers say charsets that they know nothing of, and tools write declarations that something else made wrong. What is
valid UTF-8 is UTF-8; only then does anybody's word count.
"""

import codecs
import re

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_UNMARKED = (
    (b"<\0\0\0", "utf-32-le"),
    (b"\0\0\0<", "utf-32-be"),
    (b"<\0", "utf-16-le"),
    (b"\0<", "utf-16-be"),
)
_DECLARED = re.compile(rb"""<\?xml[^>]{0,200}?encoding\s*=\s*["']\s*([A-Za-z0-9._:-]{1,40})""")
_CHARSET = re.compile(r"""charset\s*+=\s*+["']?+\s*+([A-Za-z0-9._:-]{1,40})""", re.IGNORECASE)
# Python knows codecs that no server sends, and some of them take quadratic time.
_KNOWN = re.compile(
    r"(iso[-_]?8859[-_]\d{1,2}|(windows|cp)[-_]?125\d|koi8[-_][ru]|gbk|gb2312|gb18030|big5(-?hkscs)?|euc[-_](jp|kr)"
    r"|shift[-_]?jis|sjis|iso-2022-(jp|kr)|utf-?(8|16|32)([-_]?[lb]e)?|(us-)?ascii|latin[-_]?\d|mac(intosh|-?roman)"
    r"|ibm\d{3}|cp\d{3}|tis-?620|x-sjis)",
    re.IGNORECASE,
)
# What is meant by these names is a larger set, as in the Encoding Standard.
_MEANT = {
    "iso-8859-1": "cp1252",
    "latin1": "cp1252",
    "latin-1": "cp1252",
    "us-ascii": "cp1252",
    "ascii": "cp1252",
    "iso-8859-9": "cp1254",
    "iso-8859-11": "cp874",
    "tis-620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "euc-kr": "cp949",
    "shift_jis": "cp932",
    "shift-jis": "cp932",
    "x-sjis": "cp932",
    "sjis": "cp932",
    "macintosh": "mac-roman",
}
_BAD_BYTE = re.compile("[\udc80-\udcff]")


def decode(data: bytes, content_type: str = "") -> str:
    """The characters of a document. Never fails: bytes that mean nothing become U+FFFD."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace")
    for start, encoding in _UNMARKED:
        if data.startswith(start):
            return data.decode(encoding, "replace")
    if data.isascii():
        return _decode_ascii(data, content_type)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _decode_by_word(data, content_type)


def _decode_ascii(data: bytes, content_type: str) -> str:
    """ASCII, unless the document says that it switches between character sets by escapes."""
    if b"\x1b" in data:
        for encoding in _said(data, content_type):
            if encoding.startswith("iso-2022"):
                return data.decode(encoding, "replace")
    return data.decode("ascii")


def _decode_by_word(data: bytes, content_type: str) -> str:
    for encoding in _said(data, content_type):
        try:
            return data.decode(encoding)
        except (UnicodeDecodeError, LookupError):
            continue
    # UTF-8 with something else between, by far the most often Windows' characters pasted into it.
    text = data.decode("utf-8", "surrogateescape")
    return _BAD_BYTE.sub(lambda bad: bytes([ord(bad[0]) - 0xDC00]).decode("cp1252", "replace"), text)


def _said(data: bytes, content_type: str) -> list[str]:
    """The encodings that are named for it, the server's word before the document's (RFC 7303), but for UTF-8."""
    names = [found[1] for found in [_CHARSET.search(content_type)] if found]
    names += [found[1].decode("ascii") for found in [_DECLARED.search(data[:1024])] if found]
    meant = [_MEANT.get(name.lower(), name.lower()) for name in names if _KNOWN.fullmatch(name)]
    return [name for name in meant if not name.startswith(("utf-", "utf8"))]
