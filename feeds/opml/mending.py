"""Lists that are almost XML, made into it: encodings, ampersands, characters that XML has not. PURE."""

import codecs
import re
from html.entities import html5

_DECLARED = re.compile(rb"""^\s*<\?xml[^>]{0,200}?encoding\s*=\s*["']([A-Za-z0-9._-]{1,40})["']""")
_DECLARATION = re.compile(r"^\s*<\?xml[^>]*>")
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_AMPERSAND = re.compile(r"&(?!#[0-9]{1,7};|#[xX][0-9a-fA-F]{1,6};)(?:(?P<name>[A-Za-z][A-Za-z0-9]{0,31});)?")
_XML_NAMES = frozenset({"amp", "lt", "gt", "quot", "apos"})


def mended(data: bytes) -> str:
    """The same with what XML can't have replaced or left out. It may still be none."""
    text = _DECLARATION.sub("", decoded(data), count=1).lstrip("\ufeff \t\r\n")
    return clean(_AMPERSAND.sub(_escaped, text))


def clean(text: str) -> str:
    """Without the characters that XML has not."""
    return _NO_XML.sub("", text)


def decoded(data: bytes) -> str:
    """As UTF-16 where it says so in its first bytes, else as UTF-8, else as declared, else as Windows-1252."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace")
    declared = _DECLARED.match(data)
    for encoding in ("utf-8-sig", declared[1].decode() if declared else "utf-8"):
        try:
            return data.decode(encoding)
        except (UnicodeError, LookupError):
            continue
    return data.decode("cp1252", "replace")


def _escaped(match: re.Match[str]) -> str:
    name = match["name"]
    if name in _XML_NAMES:
        return match[0]
    character = html5.get(f"{name};") if name else None
    # A name that HTML has not is text, as browsers have it.
    return f"&amp;{match[0][1:]}" if character is None else "".join(f"&#{ord(each)};" for each in character)
