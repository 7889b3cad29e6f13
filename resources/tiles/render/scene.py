"""Geometry on one zoom's pixel lattice, thinned to what can be seen there. PURE.

The lattice is global: neighbouring tiles round a vertex to the same place, so that what crosses
an edge joins without a seam. Lattice level n has 2ⁿ · 512 pixels around the globe.
"""

from dataclasses import dataclass, field
from functools import partial

import numpy as np
import shapely

from ..arrays import Floats, Indexes
from ..last_used import LastUsed
from ..reading.geometry import Geometry
from ..window import LATTICE_PIXELS

TOLERANCE_PIXELS = 0.75
DENSE_EDGE_PIXELS = 8.0
FEW_ROWS = 8
"""Parts of so few rows, or whose edges are longer than that on average, lose less by it than it costs."""

MAX_LEVELS = 6
WHOLE_LEVEL_SHARE = 8
"""From one in so many vertices on, a whole level is thinned and kept instead of only what is asked for."""


@dataclass(frozen=True, slots=True, eq=False)
class Lines:
    """Rows `offsets[i]:offsets[i + 1]` of `coordinates` (whole lattice pixels) are part i.

    A part that shrinks to a point keeps one row.
    """

    coordinates: Floats
    offsets: Indexes

    def take(self, parts: Indexes) -> "Lines":
        rows, offsets = gather(self.offsets, parts)
        return Lines(self.coordinates[rows], offsets)


def gather(offsets: Indexes, chosen: Indexes) -> tuple[Indexes, Indexes]:
    """The rows of the chosen stretches one after the other, and the offsets among them."""
    lengths = offsets[chosen + 1] - offsets[chosen]
    taken = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    rows = np.arange(taken[-1], dtype=np.int64) + np.repeat(offsets[chosen] - taken[:-1], lengths)
    return rows, taken


def simplify(coordinates: Floats, offsets: Indexes, level: int) -> Lines:
    """Lines in unit mercator, rounded to the level's lattice and thinned by less than a pixel of it."""
    rounded = np.floor(coordinates * float(LATTICE_PIXELS << level) + 0.5)
    lines = _without_repeats(rounded, offsets)
    return _without_detail(lines)


def _without_repeats(rounded: Floats, offsets: Indexes) -> Lines:
    moved = np.ones(len(rounded), dtype=np.bool_)
    moved[1:] = (rounded[1:] != rounded[:-1]).any(axis=1)
    moved[offsets[:-1]] = True
    kept = np.concatenate(([0], np.cumsum(moved)))
    return Lines(rounded[moved], kept[offsets])


def _without_detail(lines: Lines) -> Lines:
    lengths = np.diff(lines.offsets)
    steps = np.abs(np.diff(lines.coordinates, axis=0, prepend=lines.coordinates[:1])).max(axis=1)
    steps[lines.offsets[:-1]] = 0.0
    travelled = np.add.reduceat(steps, lines.offsets[:-1])
    dense = np.flatnonzero((lengths > FEW_ROWS) & (travelled < DENSE_EDGE_PIXELS * lengths))
    if not len(dense):
        return lines
    chosen = lines.take(dense)
    owners = np.repeat(np.arange(len(dense)), np.diff(chosen.offsets))
    thinned, counts = shapely.get_coordinates(
        shapely.simplify(
            shapely.linestrings(chosen.coordinates, indices=owners), TOLERANCE_PIXELS, preserve_topology=False
        ),
        return_index=True,
    )
    return _replace(lines, dense, thinned, np.bincount(counts, minlength=len(dense)))


def _replace(lines: Lines, parts: Indexes, coordinates: Floats, counts: Indexes) -> Lines:
    """The lines with some parts' rows replaced by fewer."""
    lengths = np.diff(lines.offsets)
    lengths[parts] = counts
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    replaced = np.zeros(len(lengths), dtype=np.bool_)
    replaced[parts] = True
    result = np.empty((int(offsets[-1]), 2))
    result[gather(offsets, parts)[0]] = coordinates
    others = np.flatnonzero(~replaced)
    result[gather(offsets, others)[0]] = lines.take(others).coordinates
    return Lines(result, offsets)


@dataclass(slots=True, eq=False)
class Levels:
    """The levels of one geometry, kept by last use. Safe to share between threads."""

    geometry: Geometry
    _kept: LastUsed[Lines] = field(default_factory=LastUsed)

    def take(self, level: int, parts: Indexes) -> Lines:
        """Some parts of a level. A level is thinned as a whole only when much of it is asked for."""
        lines = self._kept.find(level)
        if lines is None:
            rows, offsets = gather(self.geometry.offsets, parts)
            if len(rows) * WHOLE_LEVEL_SHARE < len(self.geometry.coordinates):
                return simplify(self.geometry.coordinates[rows], offsets, level)
            whole = partial(simplify, self.geometry.coordinates, self.geometry.offsets, level)
            lines = self._kept.get(level, whole, most=MAX_LEVELS)
        return lines.take(parts)
