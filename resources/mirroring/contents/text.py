"""Whether bytes are text, in which charset, and whether it is markup that browsers would run. PURE."""

import codecs
import re

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16le"),
    (codecs.BOM_UTF16_BE, "utf-16be"),
)
_CONTROLS = frozenset(range(0x20)) - {9, 10, 12, 13, 27} | {0x7F}
_NO_TEXT = bytes(_CONTROLS)
_NO_TEXT_CHARACTERS = re.compile("[" + "".join(map(re.escape, map(chr, sorted(_CONTROLS)))) + "\ufffe\uffff]")

_TAG = (
    r"(?:html|head|body|script|iframe|h1|div|font|table|a|style|title|b|br|p|meta|link|img|form|frameset|embed|object)"
)
_HTML = re.compile(rf"\s*<(?:!doctype\s+html|{_TAG})[\s>/]", re.IGNORECASE)
"""As browsers recognise HTML (https://mimesniff.spec.whatwg.org/#identifying-a-resource-with-an-unknown-mime-type)."""
_SKIPPED = re.compile(r"\s+|<!--(?s:.*?)-->|<\?(?s:.*?)\?>|<!doctype[^\[>]*(?:\[(?s:.*?)\]\s*)?>", re.IGNORECASE)
_ROOT = re.compile(r"<(?:[A-Za-z_][\w.-]{0,60}:)?([A-Za-z_][\w.-]{0,60})(?=[\s/>])")
_MARKUP_CHARACTERS = 4096


def text_type(head: bytes, tail: bytes) -> str | None:
    """The type with its charset, of text and markup; None for what is not surely text.

    `head` may end, `tail` may begin within a character. Without a charset: text in none that is known.
    """
    charset = _charset(head, tail)
    if charset is None:
        return None
    kind = _markup(head[: 4 * _MARKUP_CHARACTERS].decode(charset or "latin-1", errors="replace"))
    if kind:
        return kind
    return f"text/plain; charset={charset}" if charset else "text/plain"


def _charset(head: bytes, tail: bytes) -> str | None:
    """The charset, empty for text in an unknown one that has ASCII in it, None for no text."""
    for bom, charset in _BOMS:
        if head.startswith(bom):
            return charset if _is_text(head, charset) else None
    if head.translate(None, _NO_TEXT) != head or tail.translate(None, _NO_TEXT) != tail:
        return None
    whole = tail.lstrip(bytes(range(0x80, 0xC0))) if len(tail) > 3 else tail
    return "utf-8" if _is_text(head, "utf-8") and _is_text(whole, "utf-8") else ""


def _is_text(data: bytes, charset: str) -> bool:
    try:
        text = codecs.getincrementaldecoder(charset)().decode(data)
    except UnicodeDecodeError:
        return False
    return not _NO_TEXT_CHARACTERS.search(text)


def _markup(text: str) -> str | None:
    """HTML as browsers recognise it, else XML by its root."""
    text = text.lstrip("\ufeff")[:_MARKUP_CHARACTERS]
    if _HTML.match(text):
        return "text/html"
    place = 0
    while skipped := _SKIPPED.match(text, place):
        place = skipped.end()
    declared = text.lstrip().startswith("<?xml")
    root = _ROOT.match(text, place)
    if root is None:
        commented = text.lstrip()[:4] == "<!--"
        return "application/xml" if declared else "text/html" if commented else None
    match root[1].lower():
        case "svg":
            return "image/svg+xml"
        case "html":
            return "application/xhtml+xml" if declared else "text/html"
        case _ if _HTML.match(text, place):
            return "text/html"
        case _:
            return "application/xml" if declared or "xmlns" in text[root.end() : root.end() + 500] else None
