"""Paints thumbnails: small pictures of images of any size and format that is read. PURE.

The first frame, turned as its metadata says, in sRGB, without its metadata.
"""

import io
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Any

from PIL import Image, ImageCms, ImageFile

from . import opening
from .errors import ImageError
from .thumbnail import Fit

MOST_SIDE = 65_535
"""Of an image that is decoded, in pixels. Decoders of run lengths may take 255 rows more than there are."""
PROFILE_BYTES = 4_000_000
"""A colour profile that is larger is left out of account."""
STRIP_PIXELS = 1_000_000
"""So much is converted at a time, where a picture is shrunk."""
GAP = 2
"""What is left for the fine filter to shrink, after the quick one: of images that are not large, in pixels."""
LARGE_PIXELS = 8_000_000

_SRGB = ImageCms.createProfile("sRGB")
_ORIENTATION = 0x0112
_TURNS = {  # by the orientation's value (Exif 2.32, 4.6.4)
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_ON_ITS_SIDE = frozenset({5, 6, 7, 8})
_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "webp": {"format": "WEBP", "quality": 80, "method": 4},
    "png": {"format": "PNG", "compress_level": 6},
    "jpeg": {"format": "JPEG", "quality": 82, "optimize": True, "progressive": True},
}


@dataclass(frozen=True, slots=True)
class Box:
    """The thumbnail that is wanted. See thumbnail.Thumbnail."""

    width: int
    height: int
    fit: Fit
    format: str


def paint(file: IO[bytes], box: Box, most_pixels: int) -> bytes:
    """The thumbnail's file, of an image whose bytes are in `file`. Raises ImageError.

    Takes what decoding takes, plus a strip; when there is no memory for it, that is an ImageError, too.
    """
    found = opening.format_of(file.read(opening.SIGNATURE_BYTES))
    file.seek(0)
    if found is None:
        raise ImageError("is of no format that is read here.")
    with opening.opened(file, found) as image, opening.broken_told("is broken, or too much for its decoder."):
        _check(image.size, most_pixels)
        if found == "JPEG":  # decodes an eighth, a quarter or a half, if that is enough
            longer = max(box.width, box.height) * _gap(image.size)
            image.draft(None, (longer, longer))
        image.load()
        orientation = _orientation(image)
        size = (box.height, box.width) if orientation in _ON_ITS_SIDE else (box.width, box.height)
        small = _in_srgb(_scaled(image, *size, box.fit), image.info.get("icc_profile"))
        turn = _TURNS.get(orientation)
        return _file_of(small.transpose(turn) if turn is not None else small, box.format)


def _check(size: tuple[int, int], most_pixels: int) -> None:
    if max(size) > MOST_SIDE or size[0] * size[1] > most_pixels or min(size) < 1:
        raise ImageError(f"has {size[0]:,} × {size[1]:,} pixels: too many for a thumbnail.")


def _gap(size: tuple[int, int]) -> int:
    """Large images are shrunk by the quick filter as far as it goes: all else would be there twice."""
    return 1 if size[0] * size[1] > LARGE_PIXELS else GAP


def _orientation(image: ImageFile.ImageFile) -> int:
    try:
        return int(image.getexif().get(_ORIENTATION, 1))
    except opening.BROKEN:  # broken metadata is none
        return 1


def _scaled(image: Image.Image, width: int, height: int, fit: Fit) -> Image.Image:
    """The picture or its middle at its final size, in the image's own colours."""
    box, size = _cut(image.size, width, height, fit)
    factor = max(1, math.floor(min(box[2] / size[0], box[3] / size[1]) / _gap(box[2:])))
    shrunk = _shrunk(image, box, factor)
    exact = (0.0, 0.0, min(shrunk.width, box[2] / factor), min(shrunk.height, box[3] / factor))
    return shrunk.resize(size, Image.Resampling.LANCZOS, box=exact)


def _cut(size: tuple[int, int], width: int, height: int, fit: Fit) -> tuple[tuple[int, int, int, int], tuple[int, int]]:
    """The part of the picture that is shown, as (x, y, width, height), and the thumbnail's size."""
    wide, high = size
    if fit == "contain":
        scale = min(width / wide, height / high, 1.0)
        return (0, 0, wide, high), (max(1, round(wide * scale)), max(1, round(high * scale)))
    scale = max(width / wide, height / high)
    part = max(1, min(wide, round(width / scale))), max(1, min(high, round(height / scale)))
    corner = (wide - part[0]) // 2, (high - part[1]) // 2
    return (*corner, *part), (min(width, part[0]), min(height, part[1])) if scale <= 1 else part


def _shrunk(image: Image.Image, box: tuple[int, int, int, int], factor: int) -> Image.Image:
    """That part of the picture, shrunk by a whole factor, strip by strip: large images are there only once."""
    left, top, wide, high = box
    rows = max(1, STRIP_PIXELS // wide // factor) * factor
    whole: Image.Image | None = None
    for row in range(0, high, rows):
        strip = _plain(image.crop((left, top + row, left + wide, top + min(row + rows, high))), image)
        part = strip.reduce(factor) if factor > 1 else strip
        if whole is None:
            whole = Image.new(part.mode, (part.width, -(-high // factor)))
        whole.paste(part, (0, row // factor))
    assert whole is not None
    return whole


def _plain(strip: Image.Image, image: Image.Image) -> Image.Image:
    """The strip in a mode that can be scaled: L, LA, RGB, RGBA or CMYK."""
    if strip.mode.startswith("I;16"):
        return strip.convert("I").point(lambda value: value * (1 / 256)).convert("L")
    if strip.mode in ("I", "F"):
        return _levelled(strip, *_levels(image))
    if image.has_transparency_data:
        return strip.convert("LA" if strip.mode in ("L", "LA", "La") else "RGBA")
    if strip.mode in ("L", "RGB", "CMYK"):
        return strip
    return strip.convert("L" if strip.mode == "1" else "RGB")


def _levels(image: Image.Image) -> tuple[float, float]:
    low, high = image.getextrema()
    assert isinstance(low, (int, float))
    assert isinstance(high, (int, float))
    return low, high


def _levelled(strip: Image.Image, low: float, high: float) -> Image.Image:
    """Grey of any range, from black to white."""
    scale = 255 / (high - low) if math.isfinite(high - low) and high > low else 0.0
    return strip.convert("F").point(lambda value: value * scale - low * scale).convert("L")


def _in_srgb(image: Image.Image, profile: bytes | None) -> Image.Image:
    """L, LA, RGB or RGBA, by the profile if it is one for these colours."""
    alpha = image.getchannel("A") if image.mode in ("LA", "RGBA") else None
    colours = image.convert(image.mode.removesuffix("A")) if alpha else image
    converted = _converted(colours, profile) if profile and len(profile) <= PROFILE_BYTES else None
    if converted is None:
        converted = colours.convert("RGB") if colours.mode == "CMYK" else colours
    if alpha:
        converted.putalpha(alpha)
    return converted


def _converted(image: Image.Image, profile: bytes) -> Image.Image | None:
    try:
        given = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        return ImageCms.profileToProfile(image, given, _SRGB, outputMode="RGB")
    except (ImageCms.PyCMSError, *opening.BROKEN):  # one for other colours, or none
        return None


def _file_of(image: Image.Image, image_format: str) -> bytes:
    """The file, which has nothing in it but the picture."""
    plain = Image.new(image.mode, image.size)
    plain.paste(image)
    if image_format == "jpeg" and plain.mode in ("LA", "RGBA"):
        plain = _on_white(plain)
    if image_format == "webp" and plain.mode == "LA":
        plain = plain.convert("RGBA")
    buffer = io.BytesIO()
    plain.save(buffer, **_OPTIONS[image_format])
    return buffer.getvalue()


def _on_white(image: Image.Image) -> Image.Image:
    white = Image.new("RGBA", image.size, "white")
    white.alpha_composite(image.convert("RGBA"))
    return white.convert("RGB")
