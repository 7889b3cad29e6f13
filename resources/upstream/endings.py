"""Where an image ends in its file, so that nothing else can hide behind it. PURE.

Decoders stop at the end of the picture and never look at the rest. Formats as in
https://www.w3.org/TR/png-3/#5DataRep, ITU T.81 annex B, https://www.w3.org/Graphics/GIF/spec-gif89a.txt,
https://developers.google.com/speed/webp/docs/riff_container.
"""

from collections.abc import Callable, Mapping

PADDING = b"\x00\r\n\t "
"""What some servers put behind a picture: nothing that could be taken for something."""

_STANDALONE = frozenset({0x01, *range(0xD0, 0xD8)})  # JPEG's markers without a length: TEM, RST0 to RST7
_START_OF_SCAN, _END_OF_IMAGE = 0xDA, 0xD9


def is_whole(data: bytes, image_format: str) -> bool:
    """Whether the file has the whole picture and nothing behind it but padding. Formats are named as by Pillow."""
    try:
        end = _ENDS[image_format](data)
    except IndexError:
        return False
    return end <= len(data) and not data[end:].strip(PADDING)


def _png_end(data: bytes) -> int:
    """Behind the chunk IEND."""
    place = 8
    while True:
        length, name = int.from_bytes(_take(data, place, 4), "big"), _take(data, place + 4, 4)
        place += 12 + length
        if name == b"IEND":
            return place


def _jpeg_end(data: bytes) -> int:
    """Behind the marker EOI. Of the first picture: thumbnails are inside of segments."""
    place = 2
    while True:
        if data[place] != 0xFF:
            raise IndexError("no marker")
        marker = data[place + 1]
        if marker == 0xFF:  # fill bytes
            place += 1
        elif marker == _END_OF_IMAGE:
            return place + 2
        elif marker in _STANDALONE:
            place += 2
        else:
            place += 2 + max(2, int.from_bytes(_take(data, place + 2, 2), "big"))
            if marker == _START_OF_SCAN:
                place = _scan_end(data, place)


def _scan_end(data: bytes, place: int) -> int:
    """The next marker behind compressed data, in which FF00 and restarts are no markers."""
    while True:
        place = data.find(b"\xff", place)
        if place < 0:
            raise IndexError("the scan does not end")
        following = data[place + 1]
        if following != 0 and following not in _STANDALONE:
            return place
        place += 2


def _gif_end(data: bytes) -> int:
    """Behind the trailer."""
    place = 13 + _table_bytes(data[10])
    while True:
        match data[place]:
            case 0x3B:
                return place + 1
            case 0x21:  # an extension
                place = _blocks_end(data, place + 2)
            case 0x2C:  # a picture
                place = _blocks_end(data, place + 11 + _table_bytes(data[place + 9]))
            case _:
                raise IndexError("no block")


def _blocks_end(data: bytes, place: int) -> int:
    while data[place]:
        place += 1 + data[place]
    return place + 1


def _table_bytes(flags: int) -> int:
    return 3 * 2 ** ((flags & 7) + 1) if flags & 0x80 else 0


def _webp_end(data: bytes) -> int:
    """As its RIFF header says; padded to an even length."""
    length = int.from_bytes(_take(data, 4, 4), "little")
    return 8 + length


def _take(data: bytes, place: int, count: int) -> bytes:
    """Raises IndexError when the file ends before."""
    taken = data[place : place + count]
    if len(taken) < count:
        raise IndexError("the file ends")
    return taken


_ENDS: Mapping[str, Callable[[bytes], int]] = {
    "PNG": _png_end,
    "JPEG": _jpeg_end,
    "GIF": _gif_end,
    "WEBP": _webp_end,
}
