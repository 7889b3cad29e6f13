"""What the address of a thumbnail asks for. PURE."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Self, cast, get_args

from .errors import ThumbnailError

Fit = Literal["contain", "crop"]
FITS: tuple[Fit, ...] = get_args(Fit)
MOST_SIDE = 99_999
"""That an address can name. What a site paints is less."""
TYPES = {"webp": "image/webp", "png": "image/png", "jpeg": "image/jpeg"}

_NAME = re.compile(r"([1-9][0-9]{0,4})x([1-9][0-9]{0,4})\.([a-z]{1,8})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Thumbnail:
    """A small picture of a blob: in a box of so many pixels.

    `contain`: the whole picture, as large as fits in the box. `crop`: the box, filled, from the picture's middle.
    Neither is ever larger than the original: a box that is has its shape, and not its size.
    """

    digest: str
    width: int
    height: int
    format: str
    fit: Fit = "contain"

    @classmethod
    def read(cls, digest: str, name: str, given: Mapping[str, Sequence[str]], most_side: int) -> Self:
        """The thumbnail of `<w>x<h>.<format>?fit=<fit>`. Raises ThumbnailError. Does not know which blobs there are."""
        match = _NAME.fullmatch(name)
        if not match or match[3] not in TYPES:
            raise ThumbnailError(f"A thumbnail is WIDTHxHEIGHT.FORMAT, as 320x240.webp; formats: {', '.join(TYPES)}.")
        width, height = int(match[1]), int(match[2])
        if max(width, height) > most_side:
            raise ThumbnailError(f"Thumbnails have sides of 1 to {most_side} pixels.")
        return cls(digest, width, height, match[3], _fit(given))

    @property
    def content_key(self) -> str:
        return f"thumbnail:{self.digest}:{self.width}x{self.height}:{self.fit}:{self.format}"

    @property
    def content_type(self) -> str:
        return TYPES[self.format]


def content_keys(digest: str) -> str:
    """A pattern, as Redis has them, of the content keys of all thumbnails of a file."""
    return f"thumbnail:{digest}:*"


def check_size(thumbnail: Thumbnail, sizes: Collection[str]) -> None:
    """Raises ThumbnailError for a size that is not among those, as `320x240`, if there are any."""
    if sizes and f"{thumbnail.width}x{thumbnail.height}" not in sizes:
        raise ThumbnailError(f"Thumbnails have one of the sizes {', '.join(sorted(sizes))}.")


def _fit(given: Mapping[str, Sequence[str]]) -> Fit:
    for name, values in given.items():
        if name != "fit" or len(values) != 1:
            raise ThumbnailError("Thumbnails have one parameter: fit, given once.")
        if values[0] not in FITS:
            raise ThumbnailError(f"fit is {' or '.join(FITS)}.")
    return cast("Fit", given["fit"][0]) if given else "contain"
