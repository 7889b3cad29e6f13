"""The image formats of this site, a line each: their names, and the options with which this site encodes them. PURE.

A format with `tile` serves all map tiles and static maps, one with `thumbnail` serves thumbnails, one with
`upstream_weight` is accepted from other tile servers. Mirrored images of all these formats get a size and thumbnails.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ImageFormat:
    """A format by its name in addresses and files, and by Pillow's name. Options are those of Pillow's encoder.

    `tile` encodes without loss. `lossy` converts a tile of another server whose own format `is_lossy`.
    `upstream_weight` is the format's weight in `Accept` (RFC 9110, 12.4.2).
    """

    name: str
    pillow_name: str
    media_type: str
    tile: Mapping[str, Any] | None = None
    lossy: Mapping[str, Any] | None = None
    thumbnail: Mapping[str, Any] | None = None
    upstream_weight: float = 0.0
    is_lossy: bool = False


_WEBP_TILE, _WEBP_LOSSY = {"lossless": True, "quality": 20, "method": 2}, {"quality": 80, "method": 2}
_JPEG_THUMBNAIL = {"quality": 82, "optimize": True, "progressive": True}
_FORMATS = (
    ImageFormat("png", "PNG", "image/png", {"compress_level": 5}, None, {"compress_level": 6}, 1.0),
    ImageFormat("jpeg", "JPEG", "image/jpeg", None, None, _JPEG_THUMBNAIL, 1.0, is_lossy=True),
    ImageFormat("webp", "WEBP", "image/webp", _WEBP_TILE, _WEBP_LOSSY, {"quality": 80, "method": 4}, 1.0),
    ImageFormat("gif", "GIF", "image/gif", upstream_weight=0.5),
    ImageFormat("avif", "AVIF", "image/avif"),
    ImageFormat("bmp", "BMP", "image/bmp"),
    ImageFormat("ico", "ICO", "image/x-icon"),
    ImageFormat("jp2", "JPEG2000", "image/jp2"),
    ImageFormat("tiff", "TIFF", "image/tiff"),
)
"""Formats without a signature, and those that Python code decodes, are missing."""

BY_PILLOW_NAME = {each.pillow_name: each for each in _FORMATS}
UPSTREAM_FORMATS = {each.pillow_name: each for each in _FORMATS if each.upstream_weight}
TILE_FORMATS = {each.name: each for each in _FORMATS if each.tile is not None}
THUMBNAIL_FORMATS = {each.name: each for each in _FORMATS if each.thumbnail is not None}
DEFAULT_TILE_FORMAT = "png"
"""Keeps index colours. A tile of another server comes unchanged at an address of this format."""
