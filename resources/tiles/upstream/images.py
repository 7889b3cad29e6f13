"""Checks that another server's answer is a whole tile, and converts its format. PURE.

Decoders stop at the end of the picture and never look at the rest, so the end is found here: nothing else can hide
behind it. Formats as in https://www.w3.org/TR/png-3/#5DataRep, ITU T.81 annex B,
https://www.w3.org/Graphics/GIF/spec-gif89a.txt, https://developers.google.com/speed/webp/docs/riff_container.
"""

import io
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from PIL import Image

from ...image_formats import DEFAULT_TILE_FORMAT, TILE_FORMATS, UPSTREAM_FORMATS
from ..errors import UpstreamImageError

TILE_PIXELS = 256
TRAILING_PADDING = b"\x00\r\n\t "
"""Bytes that some servers put behind a picture, and that cannot be mistaken for other data."""

_STANDALONE_MARKERS = frozenset({0x01, *range(0xD0, 0xD8)})  # JPEG's markers without a length: TEM, RST0 to RST7
_START_OF_SCAN, _END_OF_IMAGE = 0xDA, 0xD9

_DECODER_ERRORS = (
    # The errors of Pillow's decoders for damaged and malicious files.
    *(OSError, SyntaxError, ValueError, TypeError, EOFError, IndexError, KeyError, OverflowError, MemoryError),
    *(struct.error, zlib.error, Image.DecompressionBombError, Image.DecompressionBombWarning),
)


@dataclass(frozen=True, slots=True)
class UpstreamImage:
    """An image file and its media type."""

    body: bytes
    content_type: str


def read_tile_image(body: bytes, scale: int) -> UpstreamImage:
    """Returns the picture, as it came, if it is a tile of that scale. Raises UpstreamImageError.

    All of it is decoded, so that no client gets a broken one; its size is checked before that, so that no small
    file takes much memory. Tiles have 256 × 256 pixels times the scale. Tiles with twice as many at any scale are
    accepted too: maps show them at the same size, sharper.
    """
    side = TILE_PIXELS * scale
    with _refuse_broken(body):
        with Image.open(io.BytesIO(body), formats=tuple(UPSTREAM_FORMATS)) as image:
            found, size = image.format or "", image.size
            if size not in {(side, side), (2 * side, 2 * side)}:
                raise UpstreamImageError(f"an image of {size[0]} × {size[1]} pixels, not of {side} × {side}")
            image.verify()
        if not is_whole_image(body, found):
            raise UpstreamImageError(f"a {found} file that is cut short, or has something else behind its picture")
        with Image.open(io.BytesIO(body), formats=(found,)) as image:
            image.load()
    return UpstreamImage(body, UPSTREAM_FORMATS[found].media_type)


def convert_image(picture: UpstreamImage, image_format: str) -> UpstreamImage:
    """Returns the picture in the format of the address; unchanged for the default one.

    Lossy pictures are compressed with loss again, all others stay the same to the pixel. Raises UpstreamImageError.
    """
    wanted = TILE_FORMATS[image_format]
    if image_format == DEFAULT_TILE_FORMAT or picture.content_type == wanted.media_type:
        return picture
    with _refuse_broken(picture.body), Image.open(io.BytesIO(picture.body), formats=tuple(UPSTREAM_FORMATS)) as image:
        buffer = io.BytesIO()
        options = wanted.lossy if UPSTREAM_FORMATS[image.format or ""].is_lossy else wanted.tile
        mode = "RGBA" if image.has_transparency_data else "RGB"
        image.convert(mode).save(buffer, format=wanted.pillow_name, **options or {})
        return UpstreamImage(buffer.getvalue(), wanted.media_type)


@contextmanager
def _refuse_broken(body: bytes) -> Iterator[None]:
    try:
        yield
    except _DECODER_ERRORS as error:
        raise UpstreamImageError(_describe_body(body)) from error


def _describe_body(body: bytes) -> str:
    """Returns a guess at the real kind of a body that is no image."""
    if not body:
        return "nothing"
    if body.lstrip()[:1] == b"<":
        return "a page or XML, not an image"
    if body.lstrip()[:1] in (b"{", b"["):
        return "JSON, not an image"
    return "no image, or a broken one"


def is_whole_image(data: bytes, image_format: str) -> bool:
    """True if the file has the whole picture and only padding behind it. Formats are named as by Pillow."""
    try:
        end = _END_FINDERS[image_format](data)
    except IndexError:
        return False
    return end <= len(data) and not data[end:].strip(TRAILING_PADDING)


def _png_end(data: bytes) -> int:
    place = 8
    while True:
        length, name = int.from_bytes(_take_bytes(data, place, 4), "big"), _take_bytes(data, place + 4, 4)
        place += 12 + length
        if name == b"IEND":
            return place


def _jpeg_end(data: bytes) -> int:
    """Returns the place behind the marker EOI of the first picture: thumbnails are inside of segments."""
    place = 2
    while True:
        if data[place] != 0xFF:
            raise IndexError("no marker")
        marker = data[place + 1]
        if marker == 0xFF:  # fill bytes
            place += 1
        elif marker == _END_OF_IMAGE:
            return place + 2
        elif marker in _STANDALONE_MARKERS:
            place += 2
        else:
            place += 2 + max(2, int.from_bytes(_take_bytes(data, place + 2, 2), "big"))
            if marker == _START_OF_SCAN:
                place = _jpeg_scan_end(data, place)


def _jpeg_scan_end(data: bytes, place: int) -> int:
    """Returns the next marker behind compressed data, in which FF00 and restarts are no markers."""
    while True:
        place = data.find(b"\xff", place)
        if place < 0:
            raise IndexError("the scan does not end")
        following = data[place + 1]
        if following != 0 and following not in _STANDALONE_MARKERS:
            return place
        place += 2


def _gif_end(data: bytes) -> int:
    place = 13 + _gif_table_bytes(data[10])
    while True:
        match data[place]:
            case 0x3B:
                return place + 1
            case 0x21:  # an extension
                place = _gif_blocks_end(data, place + 2)
            case 0x2C:  # a picture
                place = _gif_blocks_end(data, place + 11 + _gif_table_bytes(data[place + 9]))
            case _:
                raise IndexError("no block")


def _gif_blocks_end(data: bytes, place: int) -> int:
    while data[place]:
        place += 1 + data[place]
    return place + 1


def _gif_table_bytes(flags: int) -> int:
    return 3 * 2 ** ((flags & 7) + 1) if flags & 0x80 else 0


def _webp_end(data: bytes) -> int:
    """Returns the end in the RIFF header; the length there is padded to an even number."""
    return 8 + int.from_bytes(_take_bytes(data, 4, 4), "little")


def _take_bytes(data: bytes, place: int, count: int) -> bytes:
    """Returns `count` bytes. Raises IndexError if the file ends before."""
    taken = data[place : place + count]
    if len(taken) < count:
        raise IndexError("the file ends")
    return taken


_END_FINDERS: Mapping[str, Callable[[bytes], int]] = {
    "PNG": _png_end,
    "JPEG": _jpeg_end,
    "GIF": _gif_end,
    "WEBP": _webp_end,
}
