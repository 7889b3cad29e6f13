"""Points as dots with an outline on an index-colour canvas. PURE.

Dots lie over each other from the largest to the smallest, and from north to south. The canvas is
painted for all of them at once: each pixel takes the topmost of the dots that reach it, so that a
hundred thousand dots take as long as one.
"""

import math
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ...arrays import Floats, Places
from ...reading import points
from ...reading.points import Points, Seen
from ...styling import point_style
from ...styling.point_style import OUTLINE_PIXELS, PointStyle
from ...window import SUPERSAMPLING, Window
from .discs import disc

RADII_STEPS = 8
"""How many sizes there are between the least and the largest radius."""

STAMPED = 1000
"""Up to so many dots of a size are quicker drawn one by one."""

STRIP = 512
"""How many rows are painted at once: a large picture would take a dozen arrays of its size."""

Ranks: TypeAlias = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class _Size:
    """Radii in lattice pixels, without the outline and with it."""

    inner: int
    outer: int


def draw(of: Points, style: PointStyle, window: Window, scale: int) -> Image.Image | None:
    """The window's index colours; None when no dot is near."""
    steps = weight_steps(of.weights) if style.radii[0] < style.radii[1] else np.zeros(len(of.x), np.int64)
    sizes = _sizes(style, scale)
    drawn = False
    image = Image.new("L", (window.width, window.height))
    for top in range(0, window.height, STRIP):
        strip = replace(window, y=window.y + top, height=min(STRIP, window.height - top))
        seen = points.near(of.x, of.y, strip, sizes[-1].outer)
        if len(seen.chosen):
            drawn = True
            image.paste(_draw(seen, steps[seen.chosen], sizes, strip), (0, top))
    return image if drawn else None


def _draw(seen: Seen, steps: Places, sizes: list[_Size], window: Window) -> Image.Image:
    reach = sizes[-1].outer
    order = np.lexsort((seen.x, seen.y, -steps))
    x, y, steps = seen.x[order] + reach, seen.y[order] + reach, steps[order]
    ranks = np.arange(1, len(order) + 1, dtype=np.int32)
    top = np.zeros((window.height + 2 * reach, window.width + 2 * reach), np.int32)
    for step in np.unique(steps).tolist():
        here = np.flatnonzero(steps == step)
        draw_some = _stamp if len(here) <= STAMPED else _spread_all
        draw_some(top, x[here], y[here], 2 * ranks[here], sizes[step])
    kept = top[reach : reach + window.height, reach : reach + window.width]
    colours = np.where(kept % 2, np.uint8(point_style.FILL), np.uint8(point_style.OUTLINE))
    return Image.fromarray(np.where(kept > 0, colours, np.uint8(0)))


def weight_steps(weights: Floats) -> NDArray[np.int64]:
    """Each weight's step between the least of the layer, 0, and the most, RADII_STEPS - 1."""
    least, most = float(weights.min()), float(weights.max())
    if most <= least:
        return np.full(len(weights), RADII_STEPS - 1, np.int64)
    shares = (weights / most - least / most) / (1 - least / most)
    return np.minimum(shares * RADII_STEPS, RADII_STEPS - 1).astype(np.int64)


def _sizes(style: PointStyle, scale: int) -> list[_Size]:
    least, most = style.radii
    radii = [least + (most - least) * step / (RADII_STEPS - 1) for step in range(RADII_STEPS)]
    return [
        _Size(round(r * SUPERSAMPLING * scale), round((r + OUTLINE_PIXELS["dots"]) * SUPERSAMPLING * scale))
        for r in radii
    ]


def _stamp(top: Ranks, x: Places, y: Places, values: Ranks, size: _Size) -> None:
    """Draws a few dots, whose places have room around them, one by one."""
    outer = disc(size.outer, size.outer).astype(np.int32)
    inner = disc(size.inner, size.outer).astype(np.int32)
    for left, down, value in zip(x.tolist(), y.tolist(), values.tolist(), strict=True):
        columns = slice(max(left - size.outer, 0), left + size.outer + 1)
        rows = slice(max(down - size.outer, 0), down + size.outer + 1)
        under = top[rows, columns]
        cut = (slice(max(size.outer - down, 0), None), slice(max(size.outer - left, 0), None))
        stamp = (outer * value + inner)[cut][: under.shape[0], : under.shape[1]]
        np.maximum(under, stamp, out=under)


def _spread_all(top: Ranks, x: Places, y: Places, values: Ranks, size: _Size) -> None:
    """Draws many dots at once. Of several in one place the last stays."""
    centres = np.zeros_like(top)
    centres[y, x] = values
    doubled = [centres]  # doubled[i]: the greatest of 2ⁱ pixels, from this one to the right
    np.maximum(top, _spread(doubled, size.outer), out=top)
    inner = _spread(doubled, size.inner)
    np.maximum(top, inner + (inner > 0), out=top)


def _spread(doubled: list[Ranks], radius: int) -> Ranks:
    """The greatest value within a disc around each pixel, row by row of the disc."""
    spread = np.zeros_like(doubled[0])
    for down in range(radius, -1, -1):
        widened = _widen(doubled, math.isqrt(radius * (radius + 1) - down * down))
        for shift in {down, -down}:
            here, there = _overlap(len(spread), shift)
            np.maximum(spread[here], widened[there], out=spread[here])
    return spread


def _widen(doubled: list[Ranks], half: int) -> Ranks:
    """The greatest value among `half` pixels to either side, of two overlapping runs of a power of two."""
    width = 2 * half + 1
    power = width.bit_length() - 1
    while len(doubled) <= power:
        last, step = doubled[-1], 1 << (len(doubled) - 1)
        longer = last.copy()
        np.maximum(last[:, :-step], last[:, step:], out=longer[:, :-step])
        doubled.append(longer)
    runs = doubled[power]
    return np.maximum(_shifted(runs, half), _shifted(runs, (1 << power) - 1 - half))


def _shifted(values: Ranks, columns: int) -> Ranks:
    """The values moved to the right by some columns, to the left if below nothing; zeros come in."""
    moved = np.zeros_like(values)
    here, there = _overlap(values.shape[1], columns)
    moved[:, here] = values[:, there]
    return moved


def _overlap(length: int, shift: int) -> tuple[slice, slice]:
    """Where values that are moved by `shift` come to stand, and where they stood."""
    if shift >= 0:
        return slice(shift, length), slice(0, length - shift)
    return slice(0, length + shift), slice(-shift, length)
