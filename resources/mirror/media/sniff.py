"""Recognises the type of bytes, and the size of an image: by the bytes alone, never by the origin's word.

Containers of audio, video and further images are recognised by their signatures, from the head; puremagic knows
some of them, but by fewer bytes, or as several types at once. Text is recognised with its charset, and markup that
browsers would run. puremagic decides on the rest.
"""

import codecs
import io
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import puremagic
from puremagic.main import magic_footer_array, magic_header_array, multi_part_dict

from ...image_formats import BY_PILLOW_NAME
from ..errors import UnreadableImageError
from . import image_files

_ISO_BRANDS: Mapping[bytes, str] = {  # ISO base media file format, https://mp4ra.org/registered-types/brands
    **dict.fromkeys((b"avif", b"avis"), "image/avif"),
    **dict.fromkeys((b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx"), "image/heic"),
    **dict.fromkeys((b"mif1", b"msf1"), "image/heif"),
    **dict.fromkeys((b"M4A ", b"M4B ", b"M4P ", b"F4A ", b"F4B "), "audio/mp4"),
    b"crx ": "image/x-canon-cr3",
    b"qt  ": "video/quicktime",
}
_MATROSKA_DOCTYPES = {b"webm": "video/webm", b"matroska": "video/x-matroska"}  # RFC 8794, 11.2.4
_RIFF_TYPES = {b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo", b"WEBP": "image/webp"}
_OGG_CODECS = {  # RFC 5334 and the first bytes of each codec's mapping
    b"\x80theora": "video/ogg",
    b"OpusHead": "audio/ogg",
    b"\x01vorbis": "audio/ogg",
    b"\x7fFLAC": "audio/ogg",
    b"Speex   ": "audio/ogg",
}
_PREFIXES = {
    b"fLaC": "audio/flac",
    b"ID3": "audio/mpeg",
    b"FLV\x01": "video/x-flv",
    b"\x00\x00\x01\xba": "video/mpeg",
    b"\x00\x00\x01\xb3": "video/mpeg",
    b"#!AMR": "audio/amr",
    b"\xff\x0a": "image/jxl",
    b"\x00\x00\x00\x0cJXL \r\n\x87\n": "image/jxl",
}
_BITRATES = {  # of layer III in kbit/s: MPEG-1, and MPEG-2 and 2.5 (ISO 11172-3, 13818-3)
    True: (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    False: (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
_SAMPLE_RATES = {3: (44_100, 48_000, 32_000), 2: (22_050, 24_000, 16_000), 0: (11_025, 12_000, 8_000)}
_PACKET_BYTES = 188


def recognise_container(head: bytes) -> str | None:
    """Returns the type; None if this is no container of audio or video, nor an image without a decoder here."""
    if head[4:8] == b"ftyp":
        return _brand_type(head[8:12])
    if head.startswith(b"\x1aE\xdf\xa3"):
        return _matroska_type(head[:64])
    if head.startswith(b"RIFF"):
        return _RIFF_TYPES.get(head[8:12])
    if head.startswith(b"OggS"):
        return next((kind for mark, kind in _OGG_CODECS.items() if head.startswith(mark, 28)), None)
    plain = next((kind for mark, kind in _PREFIXES.items() if head.startswith(mark)), None)
    if plain:
        return plain
    if _is_transport_stream(head):
        return "video/mp2t"
    return "audio/mpeg" if _is_layer_three(head) else None


def _brand_type(brand: bytes) -> str:
    if brand.startswith((b"3gp", b"3g2")):
        return "video/3gpp" if brand.startswith(b"3gp") else "video/3gpp2"
    return _ISO_BRANDS.get(brand, "video/mp4")


def _matroska_type(head: bytes) -> str | None:
    place = head.find(b"\x42\x82")
    if place < 0 or place + 3 > len(head):
        return None
    length = head[place + 2] & 0x7F
    return _MATROSKA_DOCTYPES.get(head[place + 3 : place + 3 + length].rstrip(b"\0"))


def _is_transport_stream(head: bytes) -> bool:
    return len(head) > 3 * _PACKET_BYTES and all(head[n * _PACKET_BYTES] == 0x47 for n in range(4))


def _is_layer_three(head: bytes) -> bool:
    """Tells whether MP3 begins here: one frame, and a second one at its end."""
    length = _frame_bytes(head[:4])
    return length > 0 and _frame_bytes(head[length : length + 4]) > 0


def _frame_bytes(header: bytes) -> int:
    """Returns the length of the frame with that header; 0 if it is none."""
    if len(header) < 4 or header[0] != 0xFF or header[1] & 0xE6 != 0xE2:
        return 0
    version, bitrate, rate = header[1] >> 3 & 3, header[2] >> 4, header[2] >> 2 & 3
    if version == 1 or bitrate in (0, 15) or rate == 3:
        return 0
    per_frame = 144_000 if version == 3 else 72_000
    return per_frame * _BITRATES[version == 3][bitrate] // _SAMPLE_RATES[version][rate] + (header[2] >> 1 & 1)


_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16le"), (codecs.BOM_UTF16_BE, "utf-16be"))
_CONTROLS = frozenset(range(0x20)) - {9, 10, 12, 13, 27} | {0x7F}
_CONTROL_BYTES = bytes(_CONTROLS)
_CONTROL_CHARACTERS = re.compile("[" + "".join(map(re.escape, map(chr, sorted(_CONTROLS)))) + "\ufffe\uffff]")

_HTML_TAGS = (
    r"(?:html|head|body|script|iframe|h1|div|font|table|a|style|title|b|br|p|meta|link|img|form|frameset|embed|object)"
)
_HTML_START = re.compile(rf"\s*<(?:!doctype\s+html|{_HTML_TAGS})[\s>/]", re.IGNORECASE)
"""HTML as browsers recognise it (https://mimesniff.spec.whatwg.org/#identifying-a-resource-with-an-unknown-mime-type).
"""
_PROLOGUE = re.compile(r"\s+|<!--(?s:.*?)-->|<\?(?s:.*?)\?>|<!doctype[^\[>]*(?:\[(?s:.*?)\]\s*)?>", re.IGNORECASE)
_ROOT_ELEMENT = re.compile(r"<(?:[A-Za-z_][\w.-]{0,60}:)?([A-Za-z_][\w.-]{0,60})(?=[\s/>])")
_MARKUP_CHARACTERS = 4096


def recognise_text(head: bytes, tail: bytes) -> str | None:
    """Returns the type of text or markup, with its charset; None if the bytes are not surely text.

    `head` may end, `tail` may begin within a character. The charset is missing if it is unknown.
    """
    charset = _find_charset(head, tail)
    if charset is None:
        return None
    kind = _markup_type(head[: 4 * _MARKUP_CHARACTERS].decode(charset or "latin-1", errors="replace"))
    if kind:
        return kind
    return f"text/plain; charset={charset}" if charset else "text/plain"


def _find_charset(head: bytes, tail: bytes) -> str | None:
    """Returns the charset; empty for text in an unknown one that contains ASCII; None if it is no text."""
    for bom, charset in _BOMS:
        if head.startswith(bom):
            return charset if _is_text(head, charset) else None
    if head.translate(None, _CONTROL_BYTES) != head or tail.translate(None, _CONTROL_BYTES) != tail:
        return None
    whole = tail.lstrip(bytes(range(0x80, 0xC0))) if len(tail) > 3 else tail
    return "utf-8" if _is_text(head, "utf-8") and _is_text(whole, "utf-8") else ""


def _is_text(data: bytes, charset: str) -> bool:
    try:
        text = codecs.getincrementaldecoder(charset)().decode(data)
    except UnicodeDecodeError:
        return False
    return not _CONTROL_CHARACTERS.search(text)


def _markup_type(text: str) -> str | None:
    """Returns the type of HTML as browsers recognise it, else of XML by its root."""
    text = text.lstrip("\ufeff")[:_MARKUP_CHARACTERS]
    if _HTML_START.match(text):
        return "text/html"
    place = 0
    while skipped := _PROLOGUE.match(text, place):
        place = skipped.end()
    declared = text.lstrip().startswith("<?xml")
    root = _ROOT_ELEMENT.match(text, place)
    if root is None:
        commented = text.lstrip()[:4] == "<!--"
        return "application/xml" if declared else "text/html" if commented else None
    match root[1].lower():
        case "svg":
            return "image/svg+xml"
        case "html":
            return "application/xhtml+xml" if declared else "text/html"
        case _ if _HTML_START.match(text, place):
            return "text/html"
        case _:
            return "application/xml" if declared or "xmlns" in text[root.end() : root.end() + 500] else None


MIN_SIGNATURE_BYTES = 3
"""A signature needs so many bytes to identify a type alone."""

UNKNOWN_TYPE = "application/octet-stream"
HEAD_BYTES, TAIL_BYTES = 65_536, 4096
MAX_IMAGE_SIDE = 2**31 - 1
"""The maximum of a database column. An image that claims more has no size."""

_DOCUMENTS = {
    b"%PDF-": "application/pdf",
    b"%!PS": "application/postscript",
    b"{\\rtf": "application/rtf",
    b"PK\x03\x04": "application/zip",
}
"""They begin like text, or like several types: office documents are archives, and are called so."""
_TRUSTED_PREFIXES = ("application/", "audio/", "font/", "image/", "video/")
_UNTRUSTED_WORDS = ("xml", "html", "javascript", "ecmascript")
"""Types of puremagic that are ignored: text, and types that browsers could run, which are recognised here."""
_TYPE_NAME = re.compile(r"[a-z]+/[a-z0-9][a-z0-9.+-]{0,80}")

_SIGNATURES: dict[tuple[int, int | None], set[bytes]] = {}
"""puremagic's signatures by their place. It tries all 1,400 on each file that it does not know."""
for _row in (*magic_header_array, *magic_footer_array):
    if len(_row.byte_match) >= MIN_SIGNATURE_BYTES or _row.byte_match in multi_part_dict:
        _place = (_row.offset, _row.offset + len(_row.byte_match) or None)
        _SIGNATURES.setdefault(_place, set()).add(_row.byte_match)

_BEGINNINGS: dict[tuple[int, int | None], set[bytes]] = {}
"""The first bytes of these, by their place: of most places nothing else needs a look."""
for (_start, _end), _signatures in _SIGNATURES.items():
    if _start >= 0 and _end is not None:
        _end = min(_end, _start + MIN_SIGNATURE_BYTES)
        _signatures = {one[:MIN_SIGNATURE_BYTES] for one in _signatures}
    _BEGINNINGS.setdefault((_start, _end), set()).update(_signatures)


@dataclass(frozen=True, slots=True)
class MediaKind:
    """A media type, for text with its charset; for readable images also width and height in pixels."""

    media_type: str
    width: int | None = None
    height: int | None = None


def recognise_content(source: bytes | Path) -> MediaKind:
    """Returns the type of the bytes, or of the file. Reads at most 16 MB of it, mostly a few kilobytes.

    Damaged or unknown content is `application/octet-stream`, or a type without width and height. Raises OSError if the
    file cannot be read.
    """
    with io.BytesIO(source) if isinstance(source, bytes) else source.open("rb") as file:
        return _recognise_file(file)


def _recognise_file(file: IO[bytes]) -> MediaKind:
    head = file.read(HEAD_BYTES)
    image_format = image_files.find_image_format(head[: image_files.FORMAT_SIGNATURE_BYTES])
    if image_format:
        file.seek(0)
        with suppress(UnreadableImageError):
            width, height = image_files.read_image_size(file, image_format)
            if 0 < width <= MAX_IMAGE_SIDE and 0 < height <= MAX_IMAGE_SIDE:
                return MediaKind(BY_PILLOW_NAME[image_format].media_type, width, height)
    return MediaKind(_recognise_other(head, _read_tail(file)))


def _read_tail(file: IO[bytes]) -> bytes:
    size = file.seek(0, io.SEEK_END)
    file.seek(max(0, size - TAIL_BYTES))
    return file.read(TAIL_BYTES)


def _recognise_other(head: bytes, tail: bytes) -> str:
    if not head:
        return UNKNOWN_TYPE
    for signature, kind in _DOCUMENTS.items():
        if head.startswith(signature):
            return kind
    return recognise_container(head) or recognise_text(head, tail) or _recognise_by_puremagic(head, tail)


def _begins_any(data: bytes, signatures: Mapping[tuple[int, int | None], Collection[bytes]]) -> bool:
    return any(data[start:end] in ones for (start, end), ones in signatures.items())


def _recognise_by_puremagic(head: bytes, tail: bytes) -> str:
    data = head if len(head) < HEAD_BYTES else head + tail
    if not (_begins_any(data, _BEGINNINGS) and _begins_any(data, _SIGNATURES)):
        return UNKNOWN_TYPE
    try:
        found = puremagic.magic_string(data)
    except puremagic.PureError:
        return UNKNOWN_TYPE
    for match in found:
        kind = match.mime_type.lower()
        if len(match.byte_match) < MIN_SIGNATURE_BYTES or any(word in kind for word in _UNTRUSTED_WORDS):
            continue
        if kind.startswith(_TRUSTED_PREFIXES) and _TYPE_NAME.fullmatch(kind):
            return str(kind)
    return UNKNOWN_TYPE
