"""Points as a heat map: kernel density on the pixels of a zoom. PURE.

The kernel is a Gaussian that ends at three standard deviations, in whole numbers, and so are the
weights: all sums are exact in 64-bit floats, whatever their order, and neighbouring tiles agree to
the last bit. Source: B. W. Silverman, Density Estimation for Statistics and Data Analysis, 1986,
chapter 4.2.
"""

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ...arrays import Floats
from ...reading import points
from ...reading.points import Points
from ...styling.point_style import PointStyle
from ...window import SUPERSAMPLING, Window
from . import cells

KERNEL_TOP = 512
WEIGHT_STEPS = 4096
EXACT = 1 << 53
"""Whole numbers below it are exact as 64-bit floats."""

FINER = 16
"""Weights of the four pixels around a finer one, added up: their blend is computed in sixteenths."""

STEPS = 255
CELLS_ALONG_RADIUS = 3

Densities: TypeAlias = Floats


@dataclass(frozen=True, slots=True, eq=False)
class Peak:
    """What a zoom's densities are measured by: about that of its densest place. 0 where all weighs nothing."""

    density: int


def kernel(radius: int) -> Floats:
    """The kernel along one axis, from -radius to radius: whole numbers, the highest KERNEL_TOP."""
    deviation = radius / 3
    return np.array(
        [round(KERNEL_TOP * math.exp(-((i / deviation) ** 2) / 2)) for i in range(-radius, radius + 1)], np.float64
    )


def whole_weights(weights: Floats) -> NDArray[np.int64]:
    """The weights as whole numbers, fewer the more points there are: no sum of them can be inexact."""
    most = float(weights.max(initial=0.0))
    if most <= 0:
        return np.zeros(len(weights), np.int64)
    highest = EXACT // (KERNEL_TOP**2 * FINER)
    steps = max(1, min(WEIGHT_STEPS, highest // len(weights)))
    return np.where(weights > 0, np.maximum(np.rint(weights / most * steps), 1), 0).astype(np.int64)


def find_peak(of: Points, weights: NDArray[np.int64], zoom: int, radius: float) -> Peak:
    """The density of the densest of a lattice's cells, as if the points of each cell were all in its middle."""
    some = np.flatnonzero(weights)
    if not len(some):
        return Peak(0)
    per_tile = max(1, int(CELLS_ALONG_RADIUS * cells.TILE_PIXELS / radius))
    found = cells.gather(of.x[some], of.y[some], weights[some], zoom, per_tile)
    pairs = cells.neighbours(found, CELLS_ALONG_RADIUS)
    heights = np.append(kernel(round(radius))[round(radius) :], 0)
    reached = [
        heights[np.minimum(np.abs(step) >> (points.BITS - 8 - zoom), len(heights) - 1)]
        for step in cells.steps(found, pairs)
    ]
    near = reached[0] * reached[1]
    densities = found.amounts * float(KERNEL_TOP**2)
    densities += np.bincount(pairs[0], near * found.amounts[pairs[1]], len(densities))
    densities += np.bincount(pairs[1], near * found.amounts[pairs[0]], len(densities))
    return Peak(int(densities.max()))


def draw(
    of: Points, weights: NDArray[np.int64], peak: Peak, style: PointStyle, *, window: Window, scale: int
) -> Image.Image | None:
    """The window's steps of the ramp, 0 to 255, as index colours; None when no point is near."""
    radius = round(style.radius)
    per_pixel = SUPERSAMPLING * scale
    seen = points.near(of.x, of.y, window, (radius + 2) * per_pixel)
    if not peak.density or not len(seen.chosen):
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
    steps = _ramp_steps(_blurred(counts.reshape(shape), radius), peak, scale)
    return _cut(steps, window, left * scale, top * scale)


def _blurred(counts: Densities, radius: int) -> Densities:
    """The densities of a grid that is `radius` smaller on each side."""
    rows, columns = (_bands(length - 2 * radius, radius) for length in counts.shape)
    blurred: Densities = rows @ counts @ columns.T
    return blurred


def _bands(length: int, radius: int) -> Densities:
    """The matrix that weighs, for each of `length` pixels, those around it by the kernel."""
    bands = np.zeros((length, length + 2 * radius))
    heights = kernel(radius)
    for offset, height in enumerate(heights):
        bands[np.arange(length), np.arange(length) + offset] = height
    return bands


def _ramp_steps(densities: Densities, peak: Peak, scale: int) -> NDArray[np.uint8]:
    """Each density's step. They follow its square root: without it all but the densest place would be faint."""
    finer = densities
    for _ in range(scale - 1):
        finer = _finer(_finer(finer).T).T
    full = peak.density * 4 ** (2 * (scale - 1))
    thresholds = np.array([full * step * step // STEPS**2 for step in range(1, STEPS + 1)], np.float64)
    return np.searchsorted(thresholds, finer, side="right").astype(np.uint8)


def _finer(rows: Densities) -> Densities:
    """Four times the rows of twice the resolution, in between the given ones; of the outermost half is left."""
    finer = np.empty((2 * len(rows), rows.shape[1]))
    before, after = np.concatenate((rows[:1], rows[:-1])), np.concatenate((rows[1:], rows[-1:]))
    finer[0::2] = 3 * rows + before
    finer[1::2] = 3 * rows + after
    return finer


def _cut(steps: NDArray[np.uint8], window: Window, left: int, top: int) -> Image.Image:
    """The window's lattice pixels, of which SUPERSAMPLING × SUPERSAMPLING are one of the steps'."""
    columns = np.arange(window.x, window.x + window.width) // SUPERSAMPLING - left
    rows = np.arange(window.y, window.y + window.height) // SUPERSAMPLING - top
    return Image.fromarray(steps[rows[:, None], columns[None, :]])
