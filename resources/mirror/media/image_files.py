"""Opens images of the allowed formats, and no others, without decoding them."""

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

from ...image_formats import BY_PILLOW_NAME
from ..errors import UnreadableImageError

MAX_READ_BYTES = 16 * 1024 * 1024
"""Limit of bytes read to open a file. Pillow reads AVIF whole: a larger one has a type, but no size."""
MAX_READS = 20_000
"""Limit of reads: a million empty chunks would hold the interpreter for long."""
FORMAT_SIGNATURE_BYTES = 30
"""Bytes that identify a format; for WebP also the size."""

DECODER_ERRORS = (
    # The errors that Pillow's decoders raise for damaged or malicious files.
    *(OSError, SyntaxError, ValueError, TypeError, EOFError, IndexError, KeyError, AttributeError, OverflowError),
    *(NotImplementedError, RuntimeError, ZeroDivisionError, AssertionError, struct.error, zlib.error, Warning),
    *(Image.DecompressionBombError, MemoryError),
)

_READERS: Mapping[str, Callable[[IO[bytes]], ImageFile.ImageFile]] = {  # Image.open would read more formats of a file
    reader.format: reader
    for reader in (
        *(AvifImagePlugin.AvifImageFile, BmpImagePlugin.BmpImageFile, GifImagePlugin.GifImageFile),
        *(IcoImagePlugin.IcoImageFile, JpegImagePlugin.JpegImageFile, Jpeg2KImagePlugin.Jpeg2KImageFile),
        *(PngImagePlugin.PngImageFile, TiffImagePlugin.TiffImageFile, WebPImagePlugin.WebPImageFile),
    )
}
_size_lock = Lock()

PngImagePlugin.MAX_TEXT_MEMORY = 4 * 1024 * 1024
"""Limit for the texts of an image: each thread keeps its peak, so Pillow's own 64 MB would become a gigabyte."""

# The warnings concern strangers' images and quote them: not for this site's log.
warnings.filterwarnings("ignore", module=r"PIL\.")


class LimitedFile:
    """A file with a limit on bytes and on reads. Raises OSError when one is exceeded."""

    def __init__(self, file: IO[bytes], most_bytes: int = MAX_READ_BYTES, most_times: int = MAX_READS) -> None:
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
        """Leaves the file open: its owner closes it."""


def find_image_format(signature: bytes) -> str | None:
    """Returns the format, by Pillow's name, that the file's beginning matches, or None. The rest may be anything."""
    for name in BY_PILLOW_NAME:
        accepts = Image.OPEN[name][1]
        if accepts is not None and accepts(signature) is True:
            return name
    return None


def read_image_size(file: IO[bytes], image_format: str) -> tuple[int, int]:
    """Returns width and height in pixels as the file says, not turned by its metadata. Raises UnreadableImageError.

    Reads one image at a time per process: a crafted one may take as much memory as the limit of bytes read.
    """
    if image_format == "WEBP":  # Pillow would allocate the pixels already
        return _webp_size(file.read(FORMAT_SIGNATURE_BYTES))
    with _size_lock, open_image(cast("IO[bytes]", LimitedFile(file)), image_format) as image:
        return image.size


@contextmanager
def open_image(file: IO[bytes], image_format: str) -> Iterator[ImageFile.ImageFile]:
    """Yields the image, of whatever size it claims; `load` decodes its pixels. Raises UnreadableImageError.

    Unlike Image.open, does not refuse large images or warn of them. Check the size before decoding.
    """
    with convert_decoder_errors():
        image = _READERS[image_format](file)
    try:
        yield image
    finally:
        image.close()


@contextmanager
def convert_decoder_errors(word: str = "is broken.") -> Iterator[None]:
    """Turns the errors of Pillow into UnreadableImageError with that text."""
    try:
        yield
    except MemoryError as error:
        raise UnreadableImageError("takes more memory than there is for one.") from error
    except DECODER_ERRORS as error:
        raise UnreadableImageError(word) from error


def _webp_size(head: bytes) -> tuple[int, int]:
    """Reads the size by RFC 9649, 2.5 to 2.7."""
    kind, data = head[12:16], head[20:]
    if len(head) < FORMAT_SIGNATURE_BYTES:
        raise UnreadableImageError("is broken.")
    if kind == b"VP8X":
        return 1 + int.from_bytes(data[4:7], "little"), 1 + int.from_bytes(data[7:10], "little")
    if kind == b"VP8L":
        bits = int.from_bytes(data[1:5], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    return int.from_bytes(data[6:8], "little") & 0x3FFF, int.from_bytes(data[8:10], "little") & 0x3FFF
