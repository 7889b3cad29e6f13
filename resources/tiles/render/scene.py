"""The scene of lines or areas: indexed geometry, thinned for each zoom, a class per segment, a style.

The lattice is global: neighbouring tiles round a vertex to the same place, so that lines across an edge join
without a seam. Lattice level n has 2ⁿ · 512 pixels around the globe.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Generic, Self, TypeVar

import numpy as np
import shapely
from numpy.typing import NDArray

from .. import styles
from ..data import geojson
from ..data.arrays import Geometry
from ..data.speeds import SegmentSpeeds, classify_speeds
from ..grid_arrays import Floats, Indexes
from ..styles import Style
from ..window import LATTICE_PIXELS

Value = TypeVar("Value")


@dataclass(slots=True, eq=False)
class LastUsedCache(Generic[Value]):
    """Keeps the values used last, by key. Safe to share between threads."""

    _values: OrderedDict[Hashable, Value] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def find(self, key: Hashable) -> Value | None:
        """Returns the value if it is kept, and counts that as its last use."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def get(self, key: Hashable, make: Callable[[], Value], *, most: int) -> Value:
        """Returns the value, made if it is not kept: twice when two threads ask at once. Keeps `most` values."""
        value = self.find(key)
        if value is None:
            value = make()
            with self._lock:
                self._values[key] = value
                while len(self._values) > most:
                    self._values.popitem(last=False)
        return value


TOLERANCE_PIXELS = 0.75
DENSE_EDGE_PIXELS = 8.0
MIN_THINNED_ROWS = 8
"""Thinning costs more than it saves for parts of few rows or of edges longer than DENSE_EDGE_PIXELS."""

MAX_LEVELS_KEPT = 6
WHOLE_LEVEL_SHARE = 8
"""From one in this many vertices on, the whole level is thinned and kept instead of only the requested parts."""


@dataclass(frozen=True, slots=True, eq=False)
class LatticeLines:
    """Rows `offsets[i]:offsets[i + 1]` of `coordinates` (whole lattice pixels) are part i.

    A part that shrinks to a point keeps one row.
    """

    coordinates: Floats
    offsets: Indexes

    def take(self, parts: Indexes) -> "LatticeLines":
        rows, offsets = gather_rows(self.offsets, parts)
        return LatticeLines(self.coordinates[rows], offsets)


def gather_rows(offsets: Indexes, chosen: Indexes) -> tuple[Indexes, Indexes]:
    """Returns the row numbers of the chosen stretches one after the other, and the offsets among them."""
    lengths = offsets[chosen + 1] - offsets[chosen]
    taken = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    rows = np.arange(taken[-1], dtype=np.int64) + np.repeat(offsets[chosen] - taken[:-1], lengths)
    return rows, taken


def simplify_lines(coordinates: Floats, offsets: Indexes, level: int) -> LatticeLines:
    """Rounds lines in unit mercator to the level's lattice and thins them by less than a pixel of it."""
    rounded = np.floor(coordinates * float(LATTICE_PIXELS << level) + 0.5)
    return _without_detail(_without_repeats(rounded, offsets))


def _without_repeats(rounded: Floats, offsets: Indexes) -> LatticeLines:
    moved = np.ones(len(rounded), dtype=np.bool_)
    moved[1:] = (rounded[1:] != rounded[:-1]).any(axis=1)
    moved[offsets[:-1]] = True
    kept = np.concatenate(([0], np.cumsum(moved)))
    return LatticeLines(rounded[moved], kept[offsets])


def _without_detail(lines: LatticeLines) -> LatticeLines:
    lengths = np.diff(lines.offsets)
    steps = np.abs(np.diff(lines.coordinates, axis=0, prepend=lines.coordinates[:1])).max(axis=1)
    steps[lines.offsets[:-1]] = 0.0
    travelled = np.add.reduceat(steps, lines.offsets[:-1])
    dense = np.flatnonzero((lengths > MIN_THINNED_ROWS) & (travelled < DENSE_EDGE_PIXELS * lengths))
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
    return _replace_parts(lines, dense, thinned, np.bincount(counts, minlength=len(dense)))


def _replace_parts(lines: LatticeLines, parts: Indexes, coordinates: Floats, counts: Indexes) -> LatticeLines:
    lengths = np.diff(lines.offsets)
    lengths[parts] = counts
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    replaced = np.zeros(len(lengths), dtype=np.bool_)
    replaced[parts] = True
    result = np.empty((int(offsets[-1]), 2))
    result[gather_rows(offsets, parts)[0]] = coordinates
    others = np.flatnonzero(~replaced)
    result[gather_rows(offsets, others)[0]] = lines.take(others).coordinates
    return LatticeLines(result, offsets)


@dataclass(slots=True, eq=False)
class GeometryLevels:
    """The levels of one geometry; those used last are kept. Safe to share between threads."""

    geometry: Geometry
    _kept: LastUsedCache[LatticeLines] = field(default_factory=LastUsedCache)

    def take(self, level: int, parts: Indexes) -> LatticeLines:
        """Returns some parts of a level. Thins a whole level only when much of it is requested."""
        lines = self._kept.find(level)
        if lines is None:
            rows, offsets = gather_rows(self.geometry.offsets, parts)
            if len(rows) * WHOLE_LEVEL_SHARE < len(self.geometry.coordinates):
                return simplify_lines(self.geometry.coordinates[rows], offsets, level)
            whole = partial(simplify_lines, self.geometry.coordinates, self.geometry.offsets, level)
            lines = self._kept.get(level, whole, most=MAX_LEVELS_KEPT)
        return lines.take(parts)


@dataclass(frozen=True, slots=True, eq=False)
class GeometryIndex:
    """A geometry with its spatial index and its levels; built once per geometry and process."""

    geometry: Geometry
    levels: GeometryLevels
    tree: shapely.STRtree
    west: float
    east: float
    """The ends of the geometry in unit mercator; `east` is above 1 when it crosses the antimeridian."""

    @classmethod
    def build(cls, geometry: Geometry) -> Self:
        lows, highs = group_boxes(geometry)
        boxes = shapely.box(lows[:, 0], lows[:, 1], highs[:, 0], highs[:, 1])
        return cls(
            geometry,
            GeometryLevels(geometry),
            shapely.STRtree(boxes),
            float(lows[:, 0].min()),
            float(highs[:, 0].max()),
        )

    def groups_within(self, u0: float, v0: float, u1: float, v1: float) -> Indexes:
        """Returns the groups whose boxes meet a box in unit mercator, in the order of the data."""
        found: Indexes = np.sort(self.tree.query(shapely.box(u0, v0, u1, v1)))
        return found


def group_boxes(geometry: Geometry) -> tuple[Floats, Floats]:
    first_rows = geometry.offsets[geometry.groups[:-1]]
    lows: Floats = np.minimum.reduceat(geometry.coordinates, first_rows, axis=0)
    highs: Floats = np.maximum.reduceat(geometry.coordinates, first_rows, axis=0)
    return lows, highs


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """Everything that painting a tile needs. `classes` has an index colour per feature."""

    kind: geojson.LayerKind
    index: GeometryIndex
    classes: NDArray[np.uint8]
    style: Style

    def positions(self) -> Floats:
        return self.index.geometry.coordinates


def compose_scene(kind: geojson.LayerKind, index: GeometryIndex, speeds: SegmentSpeeds | None, style: Style) -> Scene:
    """Makes a scene of these parts. Without speeds every line is grey."""
    count = int(index.geometry.features.max()) + 1
    if kind == "areas":
        classes = np.full(count, styles.DOT_FILL, np.uint8)
    elif speeds is None:
        classes = np.full(count, styles.GREY, np.uint8)
    else:
        classes = classify_speeds(speeds.speed_kmh, speeds.free_flow_kmh, style.thresholds)
    return Scene(kind, index, classes, style)
