"""Compiled points: places on the finest lattice and their weights, and how they are written and read. PURE.

All arithmetic on places is of whole numbers, so that neither the order of the points nor the part of
the map that is painted changes a result.
"""

import io
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .. import grid
from ..arrays import Floats, Indexes, Places
from ..window import LATTICE_PIXELS, Window
from .point_features import PointFeatures

FORMAT = 1
"""Grows when the arrays change their meaning."""

FINEST_LEVEL = 23
"""The lattice level on which places stand: that of tiles of the largest zoom, two pixels to a point."""

BITS = FINEST_LEVEL + LATTICE_PIXELS.bit_length() - 1
GLOBE = 1 << BITS
"""One turn of the globe: places are whole numbers below it."""


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """Points in the order of their places. Points beyond the map's latitudes stand on its edge."""

    x: Places
    y: Places
    weights: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """What of some places is near a window: which they are, and where, in lattice pixels from its corner."""

    chosen: Indexes
    x: Places
    y: Places


def compile_points(features: PointFeatures) -> tuple[Points, grid.Bounds]:
    """Projects points and rounds them to the finest lattice. Answers also their bounds."""
    projected = grid.project(features.positions)
    placed = np.floor(projected * float(GLOBE)).astype(np.int64)
    x, y = placed[:, 0] % GLOBE, np.clip(placed[:, 1], 0, GLOBE - 1)
    order = np.lexsort((features.weights, x, y))
    turned = np.mod(projected[:, 0], 1.0)
    spans = np.column_stack((turned, turned))
    v = projected[:, 1]
    return Points(x[order], y[order], features.weights[order]), grid.enclosing(spans, float(v.min()), float(v.max()))


def write_points(points: Points) -> bytes:
    """The points as an .npz file; the same points make the same bytes, in whatever order they came."""
    buffer = io.BytesIO()
    np.savez(
        buffer,
        format=np.int64(FORMAT),
        x=points.x.astype(np.uint32),
        y=points.y.astype(np.uint32),
        weights=points.weights,
    )
    return buffer.getvalue()


def read_points(data: bytes) -> Points:
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        return Points(arrays["x"].astype(np.int64), arrays["y"].astype(np.int64), arrays["weights"])


def wrapped(steps: Places) -> Places:
    """Differences of x the short way round the globe: from -GLOBE / 2 to below GLOBE / 2."""
    turned: Places = (steps + GLOBE // 2) % GLOBE - GLOBE // 2
    return turned


def pixels(units: float, zoom: int) -> float:
    """A distance on the finest lattice as pixels of a zoom at scale 1."""
    return units / (1 << (BITS - 8 - zoom))


def near(x: Places, y: Places, window: Window, reach: int) -> Seen:
    """The places within `reach` lattice pixels of a window, once for each turn of the globe that it shows."""
    shift = FINEST_LEVEL - window.level
    rows = (y >> shift) - window.y
    inside = np.flatnonzero((rows >= -reach) & (rows < window.height + reach))
    found = list(_by_turn((x[inside] >> shift) - window.x, window, reach))
    places = np.concatenate([columns for _, columns in found]) if found else np.empty(0, np.int64)
    chosen = inside[np.concatenate([which for which, _ in found])] if found else np.empty(0, np.int64)
    return Seen(chosen, places, rows[chosen])


def _by_turn(columns: Places, window: Window, reach: int) -> Iterator[tuple[Indexes, Places]]:
    for turn in window.turns(0.0, 1.0, reach):
        moved = columns + turn * window.globe
        which = np.flatnonzero((moved >= -reach) & (moved < window.width + reach))
        if len(which):
            yield which, moved[which]
