"""Opens images of the formats that are read here, and no others: their heads, without decoding. PURE."""

import io
import struct
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import IO, cast

from PIL import (
    AvifImagePlugin,
    BmpImagePlugin,
    GifImagePlugin,
    IcoImagePlugin,
    Image,
    ImageFile,
    Jpeg2KImagePlugin,
    JpegImagePlugin,
    PngImagePlugin,
    TiffImagePlugin,
    WebPImagePlugin,
)

from .errors import ImageError

FORMATS = {
    "AVIF": "image/avif",
    "BMP": "image/bmp",
    "GIF": "image/gif",
    "ICO": "image/x-icon",
    "JPEG": "image/jpeg",
    "JPEG2000": "image/jp2",
    "PNG": "image/png",
    "TIFF": "image/tiff",
    "WEBP": "image/webp",
}
"""By Pillow's names, their types. Left out are formats without a signature, and those that Python code decodes."""
READ_BYTES = 16 * 1024 * 1024
"""What is read of a file to open it. Pillow reads AVIF whole: a larger one has a type, and no size."""
READ_TIMES = 20_000
"""How often it is read: a million empty chunks would hold the interpreter for long."""
SIGNATURE_BYTES = 30
"""What tells a format; of WebP also the size."""

BROKEN = (
    # What Pillow's decoders raise for files that are damaged or made to damage.
    *(OSError, SyntaxError, ValueError, TypeError, EOFError, IndexError, KeyError, AttributeError, OverflowError),
    *(NotImplementedError, RuntimeError, ZeroDivisionError, AssertionError, struct.error, zlib.error, Warning),
    *(Image.DecompressionBombError, MemoryError),
)

_READERS: Mapping[str, Callable[[IO[bytes]], ImageFile.ImageFile]] = {
    "AVIF": AvifImagePlugin.AvifImageFile,
    "BMP": BmpImagePlugin.BmpImageFile,
    "GIF": GifImagePlugin.GifImageFile,
    "ICO": IcoImagePlugin.IcoImageFile,
    "JPEG": JpegImagePlugin.JpegImageFile,
    "JPEG2000": Jpeg2KImagePlugin.Jpeg2KImageFile,
    "PNG": PngImagePlugin.PngImageFile,
    "TIFF": TiffImagePlugin.TiffImageFile,
    "WEBP": WebPImagePlugin.WebPImageFile,
}
_turn = Lock()

PngImagePlugin.MAX_TEXT_MEMORY = 4 * 1024 * 1024
"""Of the texts of an image: each thread keeps what it has once had, so Pillow's own 64 MB would be a gigabyte."""

# They are about strangers' images, and partly in their words: nothing for this site's log.
warnings.filterwarnings("ignore", module=r"PIL\.")


class Sparing:
    """A file of which only so much is read, so often. Raises OSError once more was wanted."""

    def __init__(self, file: IO[bytes], most_bytes: int = READ_BYTES, most_times: int = READ_TIMES) -> None:
        self._file = file
        self._bytes_left = most_bytes
        self._times_left = most_times

    def read(self, size: int | None = -1) -> bytes:
        self._times_left -= 1
        most = self._bytes_left + 1
        taken = self._file.read(most if size is None or size < 0 else min(size, most))
        self._bytes_left -= len(taken)
        if self._bytes_left < 0 or self._times_left < 0:
            raise OSError("too much to read before the picture")
        return taken

    def seek(self, place: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(place, whence)

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        """Leaves the file open: it is whose it was."""


def format_of(signature: bytes) -> str | None:
    """The format, by Pillow's name, that a file begins like; None for all others. The rest may be anything."""
    for name in FORMATS:
        accepts = Image.OPEN[name][1]
        if accepts is not None and accepts(signature) is True:
            return name
    return None


def size_of(file: IO[bytes], image_format: str) -> tuple[int, int]:
    """Width and height in pixels as the file says; not turned as its metadata may want. Raises ImageError.

    One image at a time in a process: those that are made to may take as much as is read of them.
    """
    if image_format == "WEBP":  # Pillow would take memory for the pixels already
        return _webp_size(file.read(SIGNATURE_BYTES))
    with _turn, opened(cast("IO[bytes]", Sparing(file)), image_format) as image:
        return image.size


@contextmanager
def opened(file: IO[bytes], image_format: str) -> Iterator[ImageFile.ImageFile]:
    """The image, of whatever size it says it has; its pixels are decoded when `load` is called. Raises ImageError.

    As Image.open, which warns of large images, or does not open them. Whoever decodes looks at the size first.
    """
    with broken_told():
        image = _READERS[image_format](file)
    try:
        yield image
    finally:
        image.close()


@contextmanager
def broken_told(word: str = "is broken.") -> Iterator[None]:
    """Raises ImageError with that word for what Pillow raises."""
    try:
        yield
    except MemoryError as error:
        raise ImageError("takes more memory than there is for one.") from error
    except BROKEN as error:
        raise ImageError(word) from error


def _webp_size(head: bytes) -> tuple[int, int]:
    """RFC 9649, 2.5 to 2.7."""
    kind, data = head[12:16], head[20:]
    if len(head) < SIGNATURE_BYTES:
        raise ImageError("is broken.")
    if kind == b"VP8X":
        return 1 + int.from_bytes(data[4:7], "little"), 1 + int.from_bytes(data[7:10], "little")
    if kind == b"VP8L":
        bits = int.from_bytes(data[1:5], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    return int.from_bytes(data[6:8], "little") & 0x3FFF, int.from_bytes(data[8:10], "little") & 0x3FFF
