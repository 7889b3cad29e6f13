"""What bytes are: their type, and the size of an image. By the bytes alone, never by the origin's word. PURE."""

import io
import re
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import puremagic

from . import media, opening, text
from .errors import ImageError
from .signatures import SIGNATURE_BYTES, may_be_known

UNKNOWN = "application/octet-stream"
HEAD_BYTES, TAIL_BYTES = 65_536, 4096
MOST_SIDE = 2**31 - 1
"""What a database's column holds. An image that says it is larger has no size."""

_DOCUMENTS = {
    b"%PDF-": "application/pdf",
    b"%!PS": "application/postscript",
    b"{\\rtf": "application/rtf",
    b"PK\x03\x04": "application/zip",
}
"""They begin like text, or like several types in one: documents of office programs are archives, and called so."""
_TRUSTED = ("application/", "audio/", "font/", "image/", "video/")
_NOT_TRUSTED = ("xml", "html", "javascript", "ecmascript")
"""What of puremagic's types is not taken over: text, and what browsers could run. That is recognised here."""
_TYPE = re.compile(r"[a-z]+/[a-z0-9][a-z0-9.+-]{0,80}")


@dataclass(frozen=True, slots=True)
class Kind:
    """A media type, of text with its charset; of images that can be read, width and height in pixels."""

    media_type: str
    width: int | None = None
    height: int | None = None

    @property
    def is_image(self) -> bool:
        """Whether there may be thumbnails of it."""
        return self.width is not None


def recognise(source: bytes | Path) -> Kind:
    """What the bytes are, or those of the file. Reads no more than 16 MB of it, mostly a few kilobytes.

    What is damaged or of no known type is `application/octet-stream`, or a type without width and height.
    Raises OSError when the file cannot be read.
    """
    if isinstance(source, bytes):
        return _recognise(io.BytesIO(source))
    with source.open("rb") as file:
        return _recognise(file)


def _recognise(file: IO[bytes]) -> Kind:
    head = file.read(HEAD_BYTES)
    image_format = opening.format_of(head[: opening.SIGNATURE_BYTES])
    if image_format:
        file.seek(0)
        try:
            width, height = opening.size_of(file, image_format)
        except ImageError:
            return Kind(_other_type(head, _tail(file)))
        if 0 < width <= MOST_SIDE and 0 < height <= MOST_SIDE:
            return Kind(opening.FORMATS[image_format], width, height)
    return Kind(_other_type(head, _tail(file)))


def _tail(file: IO[bytes]) -> bytes:
    size = file.seek(0, io.SEEK_END)
    file.seek(max(0, size - TAIL_BYTES))
    return file.read(TAIL_BYTES)


def _other_type(head: bytes, tail: bytes) -> str:
    if not head:
        return UNKNOWN
    for signature, kind in _DOCUMENTS.items():
        if head.startswith(signature):
            return kind
    return media.media_type(head) or text.text_type(head, tail) or _magic(head, tail)


def _magic(head: bytes, tail: bytes) -> str:
    data = head if len(head) < HEAD_BYTES else head + tail
    if not may_be_known(data):
        return UNKNOWN
    try:
        found = puremagic.magic_string(data)
    except puremagic.PureError:
        return UNKNOWN
    for match in found:
        kind = match.mime_type.lower()
        known = len(match.byte_match) >= SIGNATURE_BYTES and kind.startswith(_TRUSTED) and _TYPE.fullmatch(kind)
        if known and not any(word in kind for word in _NOT_TRUSTED):
            return str(kind)
    return UNKNOWN
