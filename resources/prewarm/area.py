"""Which tiles are meant: zooms and an area, as blocks of tiles, one after the other and counted. PURE.

An area lies in unit mercator, as grid.py has it. Nothing is listed in advance: a block is found when
its turn comes, and what lies wholly inside is counted without being visited.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import shapely
import shapely.affinity
from shapely.errors import ShapelyError
from shapely.geometry import shape
from shapely.geometry.base import BaseGeometry

from resources.tiles import grid
from resources.tiles.errors import LayerError

MOST_BYTES = 20_000_000
"""A file that names an area has at most so many bytes."""

MOST_POSITIONS = 200_000

MOST_VISITED = 20_000
"""So many tiles are visited to count an area; where that is not enough, it is told from the area's size."""

_UNIT = shapely.box(0.0, 0.0, 1.0, 1.0)
_SIMPLE = 1e-7
"""Tolerance to which an area is simplified, in the width of the map: four metres."""


def everywhere() -> BaseGeometry:
    return _UNIT


def of_bounds(bounds: grid.Bounds) -> BaseGeometry:
    """The area of bounds, in two parts when they cross the antimeridian."""
    return shapely.union_all([shapely.box(*box) for box in bounds.boxes()])


def of_geojson(text: str | bytes) -> BaseGeometry:
    """The area of all polygons of a GeoJSON document. Raises LayerError."""
    if len(text) > MOST_BYTES:
        raise LayerError(f"An area has at most {MOST_BYTES:,} bytes of GeoJSON.")
    try:
        document = json.loads(text)
        polygons = [shapely.make_valid(shape(each)) for each in _geometries(document)]
        areas = [each for each in polygons if each.area > 0]
        if not areas:
            raise LayerError("The GeoJSON has no polygon: an area is made of Polygon and MultiPolygon.")
        whole = shapely.union_all(areas)
        if shapely.get_num_coordinates(whole) > MOST_POSITIONS:
            raise LayerError(f"An area has at most {MOST_POSITIONS:,} positions.")
        return shapely.simplify(shapely.transform(whole, grid.project), _SIMPLE)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, IndexError, ShapelyError) as error:
        raise LayerError(f"The area is no GeoJSON of polygons: {str(error) or type(error).__name__:.100}.") from error


def _geometries(document: Any) -> Iterator[Any]:
    match document:
        case {"type": "FeatureCollection", "features": list(features)}:
            for feature in features:
                yield from _geometries(feature)
        case {"type": "Feature", "geometry": geometry}:
            yield from _geometries(geometry)
        case {"type": "GeometryCollection", "geometries": list(geometries)}:
            for geometry in geometries:
                yield from _geometries(geometry)
        case {"type": "Polygon" | "MultiPolygon"}:
            yield document


@dataclass(frozen=True)
class Coverage:
    """The tiles of some zooms that show something of an area, `padding` (in tiles) around it included."""

    area: BaseGeometry
    zooms: range
    padding: float = grid.PADDING

    def tiles(self, zoom: int, side: int = 1) -> Iterator[tuple[int, int]]:
        """(x, y) of the blocks of so many tiles' width at a zoom that have such a tile, near ones after another."""
        yield from _found(self._region(zoom), 0, 0, 0, _level(zoom, side))

    def count(self, zoom: int, side: int = 1) -> int:
        """How many blocks those are; of areas that take too long to count, about how many."""
        region, level = self._region(zoom), _level(zoom, side)
        known = _count_of_boxes(region.geometry, level)
        return _Counting(region, level).count() if known is None else known

    def holds(self, z: int, x: int, y: int) -> bool:
        """Whether a tile is one of them."""
        return z in self.zooms and self._region(z).touches(z, x, y)

    def _region(self, zoom: int) -> "_Region":
        if zoom not in self._regions:
            self._regions[zoom] = _Region(_padded(self.area, self.padding / 2**zoom))
        return self._regions[zoom]

    @cached_property
    def _regions(self) -> "dict[int, _Region]":
        return {}


class _Region:
    """An area, prepared for many questions."""

    def __init__(self, geometry: BaseGeometry) -> None:
        self.geometry = geometry
        shapely.prepare(geometry)

    def touches(self, z: int, x: int, y: int) -> bool:
        return bool(self.geometry.intersects(_square(z, x, y)))

    def holds(self, z: int, x: int, y: int) -> bool:
        return bool(self.geometry.covers(_square(z, x, y)))


class _Counting:
    """Counts the tiles of a level in a region; gives up on visiting after MOST_VISITED of them."""

    def __init__(self, region: _Region, level: int) -> None:
        self._region, self._level, self._visited = region, level, 0

    def count(self) -> int:
        found = self._in(0, 0, 0)
        return self._estimate() if self._visited > MOST_VISITED else found

    def _estimate(self) -> int:
        """From its size, and half of its edge."""
        geometry = self._region.geometry
        return int(geometry.area * 4**self._level + geometry.length * 2**self._level / 2)

    def _in(self, z: int, x: int, y: int) -> int:
        self._visited += 1
        if self._visited > MOST_VISITED or not self._region.touches(z, x, y):
            return 0
        if z == self._level:
            return 1
        if self._region.holds(z, x, y):
            return 1 << (2 * (self._level - z))
        return sum(self._in(z + 1, *child) for child in _children(x, y))


def _found(region: _Region, z: int, x: int, y: int, level: int) -> Iterator[tuple[int, int]]:
    if not region.touches(z, x, y):
        return
    if z == level:
        yield x, y
        return
    for child in _children(x, y):
        yield from _found(region, z + 1, *child, level)


def _count_of_boxes(geometry: BaseGeometry, level: int) -> int | None:
    """How many tiles boxes beside one another touch, as bounds are; None for areas of other shapes."""
    parts = shapely.get_parts(geometry)
    boxes = shapely.bounds(parts)
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    are_boxes = len(boxes) and np.allclose(shapely.area(parts), areas, rtol=1e-9, atol=0)
    if not are_boxes or np.ptp(boxes[:, 1::2], axis=0).any():
        return None
    first = np.clip(np.ceil(boxes[:, :2] * 2**level) - 1, 0, 2**level - 1).astype(int)
    last = np.clip(np.floor(boxes[:, 2:] * 2**level), 0, 2**level - 1).astype(int)
    columns, reached = 0, -1
    for start, end in sorted(zip(first[:, 0].tolist(), last[:, 0].tolist(), strict=True)):
        columns += max(0, end - max(start - 1, reached))
        reached = max(reached, end)
    return columns * int(last[0, 1] - first[0, 1] + 1)


def _children(x: int, y: int) -> tuple[tuple[int, int], ...]:
    return (2 * x, 2 * y), (2 * x + 1, 2 * y), (2 * x, 2 * y + 1), (2 * x + 1, 2 * y + 1)


def _level(zoom: int, side: int) -> int:
    """The zoom at which one tile covers what a block does."""
    return zoom - (min(side, 1 << zoom).bit_length() - 1)


def _square(z: int, x: int, y: int) -> BaseGeometry:
    width = 0.5**z
    return shapely.box(x * width, y * width, (x + 1) * width, (y + 1) * width)


def _padded(area: BaseGeometry, padding: float) -> BaseGeometry:
    """The area with something around it, which goes on at the map's other side."""
    wide = area.buffer(padding, join_style="mitre")
    west, _, east, _ = wide.bounds if not wide.is_empty else (0.0, 0.0, 0.0, 0.0)
    if west < 0 or east > 1:
        wide = shapely.union_all([wide, *(shapely.affinity.translate(wide, step) for step in (-1.0, 1.0))])
    return shapely.intersection(wide, _UNIT)
