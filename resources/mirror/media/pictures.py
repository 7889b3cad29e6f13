"""Paints thumbnails: small pictures of images of any size and allowed format.

A thumbnail shows the first frame, turned as its metadata says, in sRGB, without the metadata.
"""

import io
import math
from dataclasses import dataclass
from typing import IO, cast

from PIL import Image, ImageCms, ImageFile, ImageOps

from ...image_formats import THUMBNAIL_FORMATS
from ..errors import UnreadableImageError
from . import image_files
from .thumbnails import ThumbnailFit

MAX_DECODED_SIDE = 65_535
"""Of an image that is decoded, in pixels. Decoders of run lengths may take 255 rows more than there are."""
MAX_PROFILE_BYTES = 4_000_000
"""Larger colour profiles are ignored."""
STRIP_PIXELS = 1_000_000
"""Number of pixels converted at a time when a picture is shrunk."""
FINE_FILTER_FACTOR = 2
"""Factor left for the fine filter after the quick one, unless the image is large."""
LARGE_PIXELS = 8_000_000

_SRGB = ImageCms.createProfile("sRGB")
_ORIENTATION = 0x0112
_ON_ITS_SIDE = frozenset({5, 6, 7, 8})
"""Values of the orientation (Exif 2.32, 4.6.4)."""


@dataclass(frozen=True, slots=True)
class ThumbnailBox:
    """The wanted thumbnail. See thumbnails.Thumbnail."""

    width: int
    height: int
    fit: ThumbnailFit
    format: str


def render_thumbnail(file: IO[bytes], box: ThumbnailBox, most_pixels: int) -> bytes:
    """Returns the thumbnail of the image in `file`, as the bytes of its own file. Raises UnreadableImageError.

    Takes the memory that decoding takes, plus a strip; running out of memory is an UnreadableImageError, too.
    """
    found = image_files.find_image_format(file.read(image_files.FORMAT_SIGNATURE_BYTES))
    file.seek(0)
    if found is None:
        raise UnreadableImageError("is of no format that is read here.")
    with (
        image_files.open_image(file, found) as image,
        image_files.convert_decoder_errors("is broken, or too much for its decoder."),
    ):
        _check_pixels(image.size, most_pixels)
        if found == "JPEG":  # decodes an eighth, a quarter or a half, if that is enough
            longer = max(box.width, box.height) * _fine_factor(image.size)
            image.draft(None, (longer, longer))
        image.load()
        orientation = _read_orientation(image)
        size = (box.height, box.width) if orientation in _ON_ITS_SIDE else (box.width, box.height)
        small = _convert_to_srgb(_scale_picture(image, *size, box.fit), image.info.get("icc_profile"))
        small.getexif()[_ORIENTATION] = orientation
        ImageOps.exif_transpose(small, in_place=True)
        return _encode_picture(small, box.format)


def _check_pixels(size: tuple[int, int], most_pixels: int) -> None:
    if max(size) > MAX_DECODED_SIDE or size[0] * size[1] > most_pixels or min(size) < 1:
        raise UnreadableImageError(f"has {size[0]:,} × {size[1]:,} pixels: too many for a thumbnail.")


def _fine_factor(size: tuple[int, int]) -> int:
    """Returns 1 for large images, which the quick filter shrinks fully: a larger rest would take its memory twice."""
    return 1 if size[0] * size[1] > LARGE_PIXELS else FINE_FILTER_FACTOR


def _read_orientation(image: ImageFile.ImageFile) -> int:
    try:
        return int(image.getexif().get(_ORIENTATION, 1))
    except image_files.DECODER_ERRORS:  # broken metadata is none
        return 1


def _scale_picture(image: Image.Image, width: int, height: int, fit: ThumbnailFit) -> Image.Image:
    """Scales the picture, or its middle, to the final size in the image's own colours."""
    box, size = _choose_part(image.size, width, height, fit)
    factor = max(1, math.floor(min(box[2] / size[0], box[3] / size[1]) / _fine_factor(box[2:])))
    shrunk = _shrink_part(image, box, factor)
    exact = (0.0, 0.0, min(shrunk.width, box[2] / factor), min(shrunk.height, box[3] / factor))
    return shrunk.resize(size, Image.Resampling.LANCZOS, box=exact)


def _choose_part(
    size: tuple[int, int], width: int, height: int, fit: ThumbnailFit
) -> tuple[tuple[int, int, int, int], tuple[int, int]]:
    """Returns the visible part of the picture, as (x, y, width, height), and the thumbnail's size."""
    wide, high = size
    if fit == "contain":
        scale = min(width / wide, height / high, 1.0)
        return (0, 0, wide, high), (max(1, round(wide * scale)), max(1, round(high * scale)))
    scale = max(width / wide, height / high)
    part = max(1, min(wide, round(width / scale))), max(1, min(high, round(height / scale)))
    corner = (wide - part[0]) // 2, (high - part[1]) // 2
    return (*corner, *part), (min(width, part[0]), min(height, part[1])) if scale <= 1 else part


def _shrink_part(image: Image.Image, box: tuple[int, int, int, int], factor: int) -> Image.Image:
    """Shrinks that part of the picture by a whole factor, strip by strip: a large image is in memory only once."""
    left, top, wide, high = box
    rows = max(1, STRIP_PIXELS // wide // factor) * factor
    whole: Image.Image | None = None
    for row in range(0, high, rows):
        strip = _make_scalable(image.crop((left, top + row, left + wide, top + min(row + rows, high))), image)
        part = strip.reduce(factor) if factor > 1 else strip
        if whole is None:
            whole = Image.new(part.mode, (part.width, -(-high // factor)))
        whole.paste(part, (0, row // factor))
    assert whole is not None
    return whole


def _make_scalable(strip: Image.Image, image: Image.Image) -> Image.Image:
    """Converts the strip to a mode that can be scaled: L, LA, RGB, RGBA or CMYK."""
    if strip.mode.startswith("I;16"):
        return strip.convert("I").point(lambda value: value * (1 / 256)).convert("L")
    if strip.mode in ("I", "F"):
        low, high = cast("tuple[float, float]", image.getextrema())
        return _level_grey(strip, low, high)
    if image.has_transparency_data:
        return strip.convert("LA" if strip.mode in ("L", "LA", "La") else "RGBA")
    if strip.mode in ("L", "RGB", "CMYK"):
        return strip
    return strip.convert("L" if strip.mode == "1" else "RGB")


def _level_grey(strip: Image.Image, low: float, high: float) -> Image.Image:
    """Converts grey of any range to the range from black to white."""
    scale = 255 / (high - low) if math.isfinite(high - low) and high > low else 0.0
    return strip.convert("F").point(lambda value: value * scale - low * scale).convert("L")


def _convert_to_srgb(image: Image.Image, profile: bytes | None) -> Image.Image:
    """Converts the image to L, LA, RGB or RGBA, by the profile if it fits these colours."""
    alpha = image.getchannel("A") if image.mode in ("LA", "RGBA") else None
    colours = image.convert(image.mode.removesuffix("A")) if alpha else image
    converted = _apply_profile(colours, profile) if profile and len(profile) <= MAX_PROFILE_BYTES else None
    if converted is None:
        converted = colours.convert("RGB") if colours.mode == "CMYK" else colours
    if alpha:
        converted.putalpha(alpha)
    return converted


def _apply_profile(image: Image.Image, profile: bytes) -> Image.Image | None:
    try:
        given = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        return ImageCms.profileToProfile(image, given, _SRGB, outputMode="RGB")
    except (ImageCms.PyCMSError, *image_files.DECODER_ERRORS):  # a profile for other colours, or a broken one
        return None


def _encode_picture(image: Image.Image, image_format: str) -> bytes:
    """Encodes the picture alone, without metadata."""
    plain = Image.new(image.mode, image.size)
    plain.paste(image)
    if image_format == "jpeg" and plain.mode in ("LA", "RGBA"):
        plain = _flatten_on_white(plain)
    if image_format == "webp" and plain.mode == "LA":
        plain = plain.convert("RGBA")
    buffer, chosen = io.BytesIO(), THUMBNAIL_FORMATS[image_format]
    plain.save(buffer, format=chosen.pillow_name, **chosen.thumbnail or {})
    return buffer.getvalue()


def _flatten_on_white(image: Image.Image) -> Image.Image:
    white = Image.new("RGBA", image.size, "white")
    white.alpha_composite(image.convert("RGBA"))
    return white.convert("RGB")
