"""Clusters as discs with their counts written in them, on an index-colour canvas. PURE."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from ...reading import points
from ...styling import point_style
from ...styling.point_style import PointStyle
from ...window import SUPERSAMPLING, Window
from .clusters import Clusters

POINT_RADIUS = 4.0
TEXT_SHARE = 1.45
"""How wide a number may be, in radii of its disc."""

STAMPS_KEPT = 2048

Stamp = NDArray[np.uint8]


def draw(clusters: Clusters, style: PointStyle, window: Window, scale: int) -> Image.Image | None:
    """The window's index colours; None when no disc is near. Discs and numbers are whole wherever it is cut."""
    reach = int(style.reach_pixels * SUPERSAMPLING * scale) + 1
    seen = points.near(clusters.x, clusters.y, window, reach)
    if not len(seen.chosen):
        return None
    canvas = np.zeros((window.height + 4 * reach, window.width + 4 * reach), np.uint8)
    order = np.lexsort((seen.x, seen.chosen))
    counts = clusters.counts[seen.chosen]
    for at in order.tolist():
        stamp = make_stamp(int(counts[at]), style.radius, scale)
        side = len(stamp)
        top, left = int(seen.y[at]) + 2 * reach - side // 2, int(seen.x[at]) + 2 * reach - side // 2
        under = canvas[top : top + side, left : left + side]
        np.copyto(under, stamp, where=stamp > 0)
    kept = canvas[2 * reach : 2 * reach + window.height, 2 * reach : 2 * reach + window.width]
    return Image.fromarray(np.ascontiguousarray(kept))


def make_stamp(count: int, radius: float, scale: int) -> Stamp:
    """The index colours of one disc, a square of odd side with the disc in its middle."""
    if count == 1:
        return _stamp("", min(POINT_RADIUS, radius / 4), point_style.POINT, scale)
    colour = point_style.FEW
    if count >= point_style.SOME_FROM:
        colour = point_style.MANY if count >= point_style.MANY_FROM else point_style.SOME
    return _stamp(abbreviate(count), point_style.cluster_radius(radius, count), colour, scale)


@lru_cache(maxsize=STAMPS_KEPT)
def _stamp(text: str, radius_pixels: float, colour: int, scale: int) -> Stamp:
    radius = round(radius_pixels * SUPERSAMPLING * scale)
    outer = radius + round(point_style.OUTLINE_PIXELS["clusters"] * SUPERSAMPLING * scale)
    stamp = np.where(disc(outer, outer), np.uint8(point_style.RIM), np.uint8(0))
    stamp[disc(radius, outer)] = colour
    if text:
        stamp[_written(text, radius, 2 * outer + 1)] = point_style.TEXT
    stamp.setflags(write=False)
    return stamp


def disc(radius: int, half: int) -> NDArray[np.bool_]:
    """A disc in the middle of a square of side 2 · half + 1."""
    squares = np.arange(-half, half + 1) ** 2
    return np.asarray(squares[:, None] + squares[None, :] <= radius * (radius + 1))


def _written(text: str, radius: int, side: int) -> NDArray[np.bool_]:
    """Where the text's pixels are in a square of that side: in its middle, as large as fits."""
    drawn = Image.new("1", (2 * side, 2 * side))
    ImageDraw.Draw(drawn).text((side // 2, side // 2), text, fill=1, font=_fitting(text, radius))
    cut = drawn.crop(drawn.getbbox())
    mask = Image.new("1", (side, side))
    mask.paste(cut, ((side - cut.width) // 2, (side - cut.height) // 2))
    return np.asarray(mask)


def _fitting(text: str, radius: int) -> ImageFont.FreeTypeFont:
    """Pillow's own font in the largest size, up to the disc's radius, in which the text fits the disc."""
    size = max(6, radius)
    while size > 6 and _font(size).getlength(text) > TEXT_SHARE * radius:
        size -= 1
    return _font(size)


@lru_cache(maxsize=256)
def _font(size: int) -> ImageFont.FreeTypeFont:
    font = ImageFont.load_default(size)
    if not isinstance(font, ImageFont.FreeTypeFont):
        raise TypeError("Pillow was built without FreeType.")
    return font


def abbreviate(count: int) -> str:
    """A count in at most four characters: 999, 1.2k, 12k, 1.2M. Rounds down, so that it never says too much."""
    if count < 1000:
        return str(count)
    unit, letter = (1000, "k") if count < 1_000_000 else (1_000_000, "M")
    tenths = count * 10 // unit
    return f"{tenths // 10}.{tenths % 10}{letter}" if tenths < 100 and tenths % 10 else f"{tenths // 10}{letter}"
