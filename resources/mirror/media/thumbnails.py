"""Thumbnails as values: the address, key and media type of a small picture of a file. Does not paint them."""

import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, Self, cast, get_args

from ...image_formats import THUMBNAIL_FORMATS
from ..errors import ThumbnailError

ThumbnailFit = Literal["contain", "crop"]
THUMBNAIL_FITS: tuple[ThumbnailFit, ...] = get_args(ThumbnailFit)
DEFAULT_FIT: ThumbnailFit = "contain"
THUMBNAIL_KIND = "thumbnail"
MAX_ADDRESS_SIDE = 99_999
"""Limit of an address. A site paints smaller ones only."""

_FILE_NAME = re.compile(r"([1-9][0-9]{0,4})x([1-9][0-9]{0,4})\.([a-z]{1,8})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Thumbnail:
    """A small picture of a blob, within a box of `width` by `height` pixels.

    `contain`: the whole picture, as large as fits in the box. `crop`: the middle of the picture, filling the box.
    Neither is ever larger than the original: of a larger box only the shape counts.
    """

    digest: str
    width: int
    height: int
    format: str
    fit: ThumbnailFit = DEFAULT_FIT

    @classmethod
    def read(cls, digest: str, name: str, given: Mapping[str, Sequence[str]], most_side: int) -> Self:
        """Parses `<w>x<h>.<format>?fit=<fit>`. Raises ThumbnailError. Does not check whether the blob exists."""
        match = _FILE_NAME.fullmatch(name)
        if not match or match[3] not in THUMBNAIL_FORMATS:
            raise ThumbnailError(
                f"A thumbnail is WIDTHxHEIGHT.FORMAT, as 320x240.webp; formats: {', '.join(THUMBNAIL_FORMATS)}."
            )
        width, height = int(match[1]), int(match[2])
        if max(width, height) > most_side:
            raise ThumbnailError(f"Thumbnails have sides of 1 to {most_side} pixels.")
        return cls(digest, width, height, match[3], _parse_fit(given))

    @classmethod
    def of_key(cls, content_key: str) -> Self | None:
        """Returns the thumbnail of a content key; None for the key of anything else."""
        match content_key.split(":"):
            case [kind, digest, size, fit, image_format] if kind == THUMBNAIL_KIND:
                with suppress(ThumbnailError):
                    return cls.read(digest, f"{size}.{image_format}", {"fit": [fit]}, MAX_ADDRESS_SIDE)
        return None

    @property
    def path(self) -> str:
        fit = "" if self.fit == DEFAULT_FIT else f"?fit={self.fit}"
        return f"/resources/{self.digest}/{self.width}x{self.height}.{self.format}{fit}"

    @property
    def content_key(self) -> str:
        return f"{THUMBNAIL_KIND}:{self.digest}:{self.width}x{self.height}:{self.fit}:{self.format}"

    @property
    def content_type(self) -> str:
        return THUMBNAIL_FORMATS[self.format].media_type


def thumbnail_key_pattern(digest: str) -> str:
    """Returns the Redis pattern of the content keys of all thumbnails of a file."""
    return f"{THUMBNAIL_KIND}:{digest}:*"


def check_thumbnail_size(thumbnail: Thumbnail, sizes: Collection[str]) -> None:
    """Raises ThumbnailError if there are `sizes`, as `320x240`, and the thumbnail has none of them."""
    if sizes and f"{thumbnail.width}x{thumbnail.height}" not in sizes:
        raise ThumbnailError(f"Thumbnails have one of the sizes {', '.join(sorted(sizes))}.")


def _parse_fit(given: Mapping[str, Sequence[str]]) -> ThumbnailFit:
    for name, values in given.items():
        if name != "fit" or len(values) != 1:
            raise ThumbnailError("Thumbnails have one parameter: fit, given once.")
        if values[0] not in THUMBNAIL_FITS:
            raise ThumbnailError(f"fit is {' or '.join(THUMBNAIL_FITS)}.")
    return cast("ThumbnailFit", given["fit"][0]) if given else DEFAULT_FIT
