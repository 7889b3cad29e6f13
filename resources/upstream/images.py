"""Whether what another server sent is a tile, and the same tile in another format. PURE."""

import io
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from PIL import Image

from resources.tiles.tile import TYPES

from .endings import is_whole
from .errors import ImageError

FORMATS = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp", "GIF": "image/gif"}
TILE_PIXELS = 256
LOSSY_QUALITY = 80
WEBP_EFFORT = 2

_BROKEN = (
    # What Pillow's decoders raise for files that are damaged or made to damage.
    *(OSError, SyntaxError, ValueError, TypeError, EOFError, IndexError, KeyError, OverflowError, MemoryError),
    *(struct.error, zlib.error, Image.DecompressionBombError, Image.DecompressionBombWarning),
)


@dataclass(frozen=True, slots=True)
class Picture:
    """An image file and what it is."""

    body: bytes
    content_type: str


def read(body: bytes, scale: int) -> Picture:
    """The picture, as it came, if it is a tile of that scale. Raises ImageError.

    All of it is decoded, so that nobody gets a broken one; and it is checked for its size before that, so
    that no small file takes much memory. Tiles have 256 × 256 pixels times the scale. Those of servers that
    have twice as many at any scale are taken too: maps show them at the same size, sharper.
    """
    side = TILE_PIXELS * scale
    with _broken_told(body):
        with Image.open(io.BytesIO(body), formats=tuple(FORMATS)) as image:
            found, size = image.format or "", image.size
            if size not in {(side, side), (2 * side, 2 * side)}:
                raise ImageError(f"an image of {size[0]} × {size[1]} pixels, not of {side} × {side}")
            image.verify()
        if not is_whole(body, found):
            raise ImageError(f"a {found} file that is cut short, or has something else behind its picture")
        with Image.open(io.BytesIO(body), formats=(found,)) as image:
            image.load()
    return Picture(body, FORMATS[found])


def in_format(picture: Picture, image_format: str) -> Picture:
    """The picture for an address that ends so: WebP when that was asked for, anything as it came for png.

    What was compressed with loss is again, all else stays as it is to the pixel. Raises ImageError.
    """
    if image_format != "webp" or picture.content_type == TYPES["webp"]:
        return picture
    with _broken_told(picture.body), Image.open(io.BytesIO(picture.body), formats=tuple(FORMATS)) as image:
        buffer = io.BytesIO()
        mode = "RGBA" if image.has_transparency_data else "RGB"
        if picture.content_type == FORMATS["JPEG"]:
            image.convert(mode).save(buffer, format="WEBP", quality=LOSSY_QUALITY, method=WEBP_EFFORT)
        else:
            image.convert(mode).save(buffer, format="WEBP", lossless=True, quality=20, method=WEBP_EFFORT)
        return Picture(buffer.getvalue(), TYPES["webp"])


@contextmanager
def _broken_told(body: bytes) -> Iterator[None]:
    try:
        yield
    except _BROKEN as error:
        raise ImageError(_described(body)) from error


def _described(body: bytes) -> str:
    """What it may be instead."""
    if not body:
        return "nothing"
    if body.lstrip()[:1] == b"<":
        return "a page or XML, not an image"
    if body.lstrip()[:1] in (b"{", b"["):
        return "JSON, not an image"
    return "no image, or a broken one"
