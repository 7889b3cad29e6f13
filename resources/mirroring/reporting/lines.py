"""URLs from a file, a line each, in lists that fit into memory. PURE."""

from collections.abc import Iterator
from itertools import islice
from typing import BinaryIO

CHUNK = 5_000
"""URLs of one list."""

MOST_LINE_BYTES = 8_192
"""What is longer is no URL that is fetched: its beginning is reported, and refused."""

_BOM = b"\xef\xbb\xbf"


def chunks(file: BinaryIO) -> Iterator[list[str]]:
    """The URLs in lists. The same lines always make the same lists: that is how they are found again."""
    urls = read(file)
    while chunk := list(islice(urls, CHUNK)):
        yield chunk


def read(file: BinaryIO) -> Iterator[str]:
    """The URLs. Blank lines and comments (#) are skipped; bytes that are no UTF-8 stay as half surrogates."""
    is_first = True
    while line := file.readline(MOST_LINE_BYTES):
        if is_first:
            line, is_first = line.removeprefix(_BOM), False
        if len(line) == MOST_LINE_BYTES and not line.endswith(b"\n"):
            _skip_rest(file)
        url = line.strip().decode("utf-8", "surrogateescape")
        if url and not url.startswith("#"):
            yield url


def _skip_rest(file: BinaryIO) -> None:
    """Up to the end of the line, however long it is."""
    while (part := file.readline(MOST_LINE_BYTES)) and not part.endswith(b"\n"):
        pass
