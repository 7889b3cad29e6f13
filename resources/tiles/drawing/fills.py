"""Areas as filled polygons with holes, row by row. PURE.

Where an edge meets a row is computed from the edge and the row alone and rounded to a pixel before
anything else: all windows fill alike, and what is far from a window needs no clipping.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats, Indexes, Places
from ..window import LEFT, MARGIN, Window
from .simplifying import Lines

MEETINGS_AT_ONCE = 1_000_000
ROWS_AT_ONCE = 256


@dataclass(frozen=True, slots=True, eq=False)
class _Edges:
    """Edges that meet rows of a window: where they start, their slope, their first row and that after the last."""

    x: Floats
    y: Floats
    slopes: Floats
    first: Places
    last: Places
    polygons: Indexes

    def meeting(self, first_row: int, last_row: int) -> "_Edges":
        met = (self.first < last_row) & (self.last > first_row)
        first, last = np.maximum(self.first[met], first_row), np.minimum(self.last[met], last_row)
        return _Edges(self.x[met], self.y[met], self.slopes[met], first, last, self.polygons[met])


def fill(window: Window, rings: Lines, outer: NDArray[np.bool_]) -> Iterator[tuple[int, NDArray[np.bool_]]]:
    """Masks of the polygons, stretch by stretch: the first row, and whether each pixel of the rows is inside.

    A polygon is an outer ring and the holes after it (even-odd); it shows through the holes of
    others. Rings stand on the canvas already. Leaves out the bottom row of each: its outline has it.
    """
    edges = _edges(window, rings, outer)
    meetings = int((edges.last - edges.first).sum())
    if not meetings:
        return
    stretches = max(meetings / MEETINGS_AT_ONCE, window.height / ROWS_AT_ONCE)
    rows = max(1, int(window.height / stretches))
    for first in range(0, window.height, rows):
        last = min(first + rows, window.height)
        found = edges.meeting(first, last)
        if len(found.x):
            yield first, _inside(found, first, last, window.width)


def _edges(window: Window, rings: Lines, outer: NDArray[np.bool_]) -> _Edges:
    starts = rings.coordinates - np.array([LEFT, MARGIN], np.float64)
    ends = np.roll(starts, -1, axis=0)
    ends[rings.offsets[1:] - 1] = starts[rings.offsets[:-1]]
    polygons = np.repeat(np.cumsum(outer, dtype=np.int64), np.diff(rings.offsets))
    first = np.clip(np.minimum(starts[:, 1], ends[:, 1]), 0, window.height).astype(np.int64)
    last = np.clip(np.maximum(starts[:, 1], ends[:, 1]), 0, window.height).astype(np.int64)
    met = last > first
    starts, steps = starts[met], (ends - starts)[met]
    return _Edges(starts[:, 0], starts[:, 1], steps[:, 0] / steps[:, 1], first[met], last[met], polygons[met])


def _inside(edges: _Edges, first_row: int, last_row: int, width: int) -> NDArray[np.bool_]:
    counts = edges.last - edges.first
    begins = np.cumsum(counts) - counts
    rows = np.arange(int(counts.sum())) + np.repeat(edges.first - begins, counts)
    along = (rows - np.repeat(edges.y, counts)) * np.repeat(edges.slopes, counts)
    # Twice the column where the edge is met, rounded to a pixel or to between two.
    twice = np.floor(along + 0.5) + np.ceil(along - 0.5) + 2 * np.repeat(edges.x, counts)
    rows -= first_row
    height, most = last_row - first_row, 2 * width + 4
    keys = np.repeat(edges.polygons, counts) * height + rows
    keys = keys * most + np.clip(twice + 2, 0, most - 2).astype(np.int64)
    keys.sort()
    return _between(keys[0::2], keys[1::2], most, height, width)


def _between(enters: Places, leaves: Places, most: int, height: int, width: int) -> NDArray[np.bool_]:
    """Which pixels lie between the places where rows enter and leave polygons."""
    rows = enters // most % height
    west = np.clip((enters % most - 1) // 2, 0, width)
    east = np.clip((leaves % most - 2) // 2 + 1, west, width)
    changes = np.zeros((height, width + 1), np.int32)
    np.add.at(changes, (rows, west), 1)
    np.add.at(changes, (rows, east), -1)
    return np.asarray(np.cumsum(changes[:, :width], axis=1) > 0)
