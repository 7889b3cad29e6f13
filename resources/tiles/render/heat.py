"""Draws points as a heat map or as dots, in index colours.

Heat is a kernel density on the pixels of a zoom. The kernel is a Gaussian that ends at three standard
deviations, in whole numbers, and so are the weights: all sums are exact in 64-bit floats, in any order, and
neighbouring tiles agree to the last bit. Source: B. W. Silverman, Density Estimation for Statistics and Data
Analysis, 1986, chapter 4.2.

Dots lie over each other from the largest to the smallest, and from north to south. They are painted all at
once: each pixel takes the topmost of the dots that reach it, so that a hundred thousand take as long as one.
"""

import math
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from .. import styles
from ..data import arrays
from ..data.arrays import Points, PointsInView
from ..grid_arrays import Floats, PixelPlaces
from ..styles import POINT_OUTLINE_PIXELS, PointStyle
from ..window import SUPERSAMPLING, Window
from . import clusters
from .clusters import disc_mask

KERNEL_TOP = 512
WEIGHT_STEPS = 4096
EXACT_BELOW = 1 << 53
"""Whole numbers below it are exact as 64-bit floats."""

FINER_WEIGHTS = 16
"""Weights of the four pixels around a finer one, added up: their blend is computed in sixteenths."""

RAMP_STEPS = 255
CELLS_ALONG_RADIUS = 3

Densities: TypeAlias = Floats


def gaussian_kernel(radius: int) -> Floats:
    """Returns the kernel along one axis, from -radius to radius: whole numbers, the highest KERNEL_TOP."""
    deviation = radius / 3
    return np.array(
        [round(KERNEL_TOP * math.exp(-((i / deviation) ** 2) / 2)) for i in range(-radius, radius + 1)], np.float64
    )


def scale_weights(weights: Floats) -> NDArray[np.int64]:
    """Scales the weights to whole numbers, the smaller the more points there are: no sum can be inexact."""
    most = float(weights.max(initial=0.0))
    if most <= 0:
        return np.zeros(len(weights), np.int64)
    highest = EXACT_BELOW // (KERNEL_TOP**2 * FINER_WEIGHTS)
    steps = max(1, min(WEIGHT_STEPS, highest // len(weights)))
    return np.where(weights > 0, np.maximum(np.rint(weights / most * steps), 1), 0).astype(np.int64)


def find_peak(of: Points, weights: NDArray[np.int64], zoom: int, radius: float) -> int:
    """Finds the density of a lattice's densest cell, as if the points of each cell were all in its middle.

    It is the scale of a zoom's densities: about that of its densest place. 0 if all weights are 0.
    """
    some = np.flatnonzero(weights)
    if not len(some):
        return 0
    per_tile = max(1, int(CELLS_ALONG_RADIUS * clusters.TILE_PIXELS / radius))
    found = clusters.gather_cells(of.x[some], of.y[some], weights[some], zoom, per_tile)
    pairs = clusters.neighbour_pairs(found, CELLS_ALONG_RADIUS)
    heights = np.append(gaussian_kernel(round(radius))[round(radius) :], 0)
    reached = [
        heights[np.minimum(np.abs(step) >> (arrays.GLOBE_BITS - 8 - zoom), len(heights) - 1)]
        for step in clusters.pair_steps(found, pairs)
    ]
    near = reached[0] * reached[1]
    densities = found.amounts * float(KERNEL_TOP**2)
    densities += np.bincount(pairs[0], near * found.amounts[pairs[1]], len(densities))
    densities += np.bincount(pairs[1], near * found.amounts[pairs[0]], len(densities))
    return int(densities.max())


def draw_heat(
    of: Points, weights: NDArray[np.int64], peak: int, style: PointStyle, *, window: Window, scale: int
) -> Image.Image | None:
    """Draws the window's steps of the ramp, 0 to 255, as index colours; None when no point is near."""
    radius = round(style.radius)
    per_pixel = SUPERSAMPLING * scale
    seen = arrays.find_points_near(of.x, of.y, window, (radius + 2) * per_pixel)
    if not peak or not len(seen.chosen):
        return None
    left, top = (corner // per_pixel - 1 for corner in (window.x, window.y))
    right = -(-(window.x + window.width) // per_pixel) + 1
    bottom = -(-(window.y + window.height) // per_pixel) + 1
    columns = (seen.x + window.x) // per_pixel - left + radius
    rows = (seen.y + window.y) // per_pixel - top + radius
    shape = (bottom - top + 2 * radius, right - left + 2 * radius)
    inside = np.flatnonzero((columns >= 0) & (columns < shape[1]) & (rows >= 0) & (rows < shape[0]))
    places = rows[inside] * shape[1] + columns[inside]
    counts = np.bincount(places, weights[seen.chosen[inside]], shape[0] * shape[1]).astype(np.float64)
    steps = _ramp_steps(_blur_counts(counts.reshape(shape), radius), peak, scale)
    return _cut_window(steps, window, left * scale, top * scale)


def _blur_counts(counts: Densities, radius: int) -> Densities:
    """Returns the densities of a grid that is `radius` smaller on each side."""
    rows, columns = (_kernel_bands(length - 2 * radius, radius) for length in counts.shape)
    blurred: Densities = rows @ counts @ columns.T
    return blurred


def _kernel_bands(length: int, radius: int) -> Densities:
    """Returns the matrix that weighs, for each of `length` pixels, the pixels around it by the kernel."""
    bands = np.zeros((length, length + 2 * radius))
    heights = gaussian_kernel(radius)
    for offset, height in enumerate(heights):
        bands[np.arange(length), np.arange(length) + offset] = height
    return bands


def _ramp_steps(densities: Densities, peak: int, scale: int) -> NDArray[np.uint8]:
    """Returns each density's step, by its square root: else all but the densest place would be faint."""
    finer = densities
    for _ in range(scale - 1):
        finer = _refine_rows(_refine_rows(finer).T).T
    full = peak * 4 ** (2 * (scale - 1))
    thresholds = np.array([full * step * step // RAMP_STEPS**2 for step in range(1, RAMP_STEPS + 1)], np.float64)
    return np.searchsorted(thresholds, finer, side="right").astype(np.uint8)


def _refine_rows(rows: Densities) -> Densities:
    """Returns rows of twice the resolution, times four, between the given ones; half of the outermost is left."""
    finer = np.empty((2 * len(rows), rows.shape[1]))
    before, after = np.concatenate((rows[:1], rows[:-1])), np.concatenate((rows[1:], rows[-1:]))
    finer[0::2] = 3 * rows + before
    finer[1::2] = 3 * rows + after
    return finer


def _cut_window(steps: NDArray[np.uint8], window: Window, left: int, top: int) -> Image.Image:
    """Cuts out the window's lattice pixels: SUPERSAMPLING × SUPERSAMPLING of them for one of the steps."""
    columns = np.arange(window.x, window.x + window.width) // SUPERSAMPLING - left
    rows = np.arange(window.y, window.y + window.height) // SUPERSAMPLING - top
    return Image.fromarray(steps[rows[:, None], columns[None, :]])


DOT_RADII_STEPS = 8
"""Number of sizes from the least to the largest radius."""

MAX_STAMPED_DOTS = 1000
"""Up to this many dots of a size are quicker drawn one by one."""

STRIP_ROWS = 512
"""Rows painted at once: a large picture would take a dozen arrays of its size."""

DotRanks: TypeAlias = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class _DotSize:
    """Radii in lattice pixels, without the outline and with it."""

    inner: int
    outer: int


def draw_dots(of: Points, style: PointStyle, window: Window, scale: int) -> Image.Image | None:
    """Draws the window's index colours; None when no dot is near."""
    steps = weight_steps(of.weights) if style.radii[0] < style.radii[1] else np.zeros(len(of.x), np.int64)
    sizes = _dot_sizes(style, scale)
    drawn = False
    image = Image.new("L", (window.width, window.height))
    for top in range(0, window.height, STRIP_ROWS):
        strip = replace(window, y=window.y + top, height=min(STRIP_ROWS, window.height - top))
        seen = arrays.find_points_near(of.x, of.y, strip, sizes[-1].outer)
        if len(seen.chosen):
            drawn = True
            image.paste(_draw_strip(seen, steps[seen.chosen], sizes, strip), (0, top))
    return image if drawn else None


def _draw_strip(seen: PointsInView, steps: PixelPlaces, sizes: list[_DotSize], window: Window) -> Image.Image:
    reach = sizes[-1].outer
    order = np.lexsort((seen.x, seen.y, -steps))
    x, y, steps = seen.x[order] + reach, seen.y[order] + reach, steps[order]
    ranks = np.arange(1, len(order) + 1, dtype=np.int32)
    top = np.zeros((window.height + 2 * reach, window.width + 2 * reach), np.int32)
    for step in np.unique(steps).tolist():
        here = np.flatnonzero(steps == step)
        draw_some = _stamp_dots if len(here) <= MAX_STAMPED_DOTS else _spread_dots
        draw_some(top, x[here], y[here], 2 * ranks[here], sizes[step])
    kept = top[reach : reach + window.height, reach : reach + window.width]
    colours = np.where(kept % 2, np.uint8(styles.DOT_FILL), np.uint8(styles.DOT_OUTLINE))
    return Image.fromarray(np.where(kept > 0, colours, np.uint8(0)))


def weight_steps(weights: Floats) -> NDArray[np.int64]:
    """Returns each weight's step between the least of the layer, 0, and the greatest, DOT_RADII_STEPS - 1."""
    least, most = float(weights.min()), float(weights.max())
    if most <= least:
        return np.full(len(weights), DOT_RADII_STEPS - 1, np.int64)
    shares = (weights / most - least / most) / (1 - least / most)
    return np.minimum(shares * DOT_RADII_STEPS, DOT_RADII_STEPS - 1).astype(np.int64)


def _dot_sizes(style: PointStyle, scale: int) -> list[_DotSize]:
    least, most = style.radii
    radii = [least + (most - least) * step / (DOT_RADII_STEPS - 1) for step in range(DOT_RADII_STEPS)]
    return [
        _DotSize(round(r * SUPERSAMPLING * scale), round((r + POINT_OUTLINE_PIXELS["dots"]) * SUPERSAMPLING * scale))
        for r in radii
    ]


def _stamp_dots(top: DotRanks, x: PixelPlaces, y: PixelPlaces, values: DotRanks, size: _DotSize) -> None:
    """Draws a few dots one by one. Their places have room around them."""
    outer = disc_mask(size.outer, size.outer).astype(np.int32)
    inner = disc_mask(size.inner, size.outer).astype(np.int32)
    for left, down, value in zip(x.tolist(), y.tolist(), values.tolist(), strict=True):
        columns = slice(max(left - size.outer, 0), left + size.outer + 1)
        rows = slice(max(down - size.outer, 0), down + size.outer + 1)
        under = top[rows, columns]
        cut = (slice(max(size.outer - down, 0), None), slice(max(size.outer - left, 0), None))
        stamp = (outer * value + inner)[cut][: under.shape[0], : under.shape[1]]
        np.maximum(under, stamp, out=under)


def _spread_dots(top: DotRanks, x: PixelPlaces, y: PixelPlaces, values: DotRanks, size: _DotSize) -> None:
    """Draws many dots at once. Of several dots in one place the last stays."""
    centres = np.zeros_like(top)
    centres[y, x] = values
    doubled = [centres]  # doubled[i]: the greatest of 2ⁱ pixels, from this one to the right
    np.maximum(top, _spread_values(doubled, size.outer), out=top)
    inner = _spread_values(doubled, size.inner)
    np.maximum(top, inner + (inner > 0), out=top)


def _spread_values(doubled: list[DotRanks], radius: int) -> DotRanks:
    """Returns the greatest value within a disc around each pixel, row by row of the disc."""
    spread = np.zeros_like(doubled[0])
    for down in range(radius, -1, -1):
        widened = _widen_values(doubled, math.isqrt(radius * (radius + 1) - down * down))
        for shift in {down, -down}:
            here, there = _overlap_slices(len(spread), shift)
            np.maximum(spread[here], widened[there], out=spread[here])
    return spread


def _widen_values(doubled: list[DotRanks], half: int) -> DotRanks:
    """Returns the greatest value among `half` pixels to either side, from two overlapping runs of a power of two."""
    width = 2 * half + 1
    power = width.bit_length() - 1
    while len(doubled) <= power:
        last, step = doubled[-1], 1 << (len(doubled) - 1)
        longer = last.copy()
        np.maximum(last[:, :-step], last[:, step:], out=longer[:, :-step])
        doubled.append(longer)
    runs = doubled[power]
    return np.maximum(_shift_columns(runs, half), _shift_columns(runs, (1 << power) - 1 - half))


def _shift_columns(values: DotRanks, columns: int) -> DotRanks:
    """Moves the values to the right by some columns, to the left if below 0; zeros come in."""
    moved = np.zeros_like(values)
    here, there = _overlap_slices(values.shape[1], columns)
    moved[:, here] = values[:, there]
    return moved


def _overlap_slices(length: int, shift: int) -> tuple[slice, slice]:
    """Returns the new and the old places of values moved by `shift`."""
    if shift >= 0:
        return slice(shift, length), slice(0, length - shift)
    return slice(0, length + shift), slice(-shift, length)
