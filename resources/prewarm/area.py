"""The tiles of some zooms in an area, as metatiles, one after the other or counted.

An area lies in unit mercator, as tiles/grid.py has it. Nothing is listed in advance: a metatile is found when its
turn comes, and squares wholly inside the area are counted without a visit to each tile.

PURE: imports neither Django, Celery, Redis nor the network; the time is an argument.
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

from ..tiles import grid, grid_arrays
from ..tiles.errors import LayerError

MAX_AREA_BYTES = 20_000_000
"""The size limit of a file that holds an area."""

MAX_AREA_POSITIONS = 200_000

MAX_VISITED_TILES = 20_000
"""The tiles visited to count an area; beyond that, the count is estimated from the area's size."""

_WHOLE_MAP = shapely.box(0.0, 0.0, 1.0, 1.0)
_SIMPLIFY_TOLERANCE = 1e-7
"""The tolerance to which an area is simplified, as a share of the map's width: four metres."""


def area_of_bounds(bounds: grid.Bounds) -> BaseGeometry:
    """Returns the area of bounds, in two parts if they cross the antimeridian."""
    return shapely.union_all([shapely.box(*box) for box in bounds.boxes()])


def area_of_geojson(text: str | bytes) -> BaseGeometry:
    """Returns the area of all polygons of a GeoJSON document. Raises LayerError."""
    if len(text) > MAX_AREA_BYTES:
        raise LayerError(f"An area has at most {MAX_AREA_BYTES:,} bytes of GeoJSON.")
    try:
        document = json.loads(text)
        polygons = [shapely.make_valid(shape(each)) for each in _iter_polygons(document)]
        areas = [each for each in polygons if each.area > 0]
        if not areas:
            raise LayerError("The GeoJSON has no polygon: an area is made of Polygon and MultiPolygon.")
        whole = shapely.union_all(areas)
        if shapely.get_num_coordinates(whole) > MAX_AREA_POSITIONS:
            raise LayerError(f"An area has at most {MAX_AREA_POSITIONS:,} positions.")
        return shapely.simplify(shapely.transform(whole, grid_arrays.project_positions), _SIMPLIFY_TOLERANCE)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, IndexError, ShapelyError) as error:
        raise LayerError(f"The area is no GeoJSON of polygons: {str(error) or type(error).__name__:.100}.") from error


def _iter_polygons(document: Any) -> Iterator[Any]:
    match document:
        case {"type": "FeatureCollection", "features": list(features)}:
            for feature in features:
                yield from _iter_polygons(feature)
        case {"type": "Feature", "geometry": geometry}:
            yield from _iter_polygons(geometry)
        case {"type": "GeometryCollection", "geometries": list(geometries)}:
            for geometry in geometries:
                yield from _iter_polygons(geometry)
        case {"type": "Polygon" | "MultiPolygon"}:
            yield document


@dataclass(frozen=True)
class TileCoverage:
    """The tiles of some zooms that show a part of an area, or of `padding` (in tiles) around it."""

    area: BaseGeometry
    zooms: range
    padding: float = grid.DEFAULT_PADDING_TILES

    def tiles(self, zoom: int, side: int = 1) -> Iterator[tuple[int, int]]:
        """Yields (x, y) of the metatiles with such a tile, `side` tiles wide; neighbours come close together."""
        yield from _iter_region_tiles(self._region(zoom), 0, 0, 0, _metatile_zoom(zoom, side))

    def count(self, zoom: int, side: int = 1) -> int:
        """Counts those metatiles; an area that takes too long to count is estimated."""
        region, level = self._region(zoom), _metatile_zoom(zoom, side)
        known = _count_box_tiles(region.geometry, level)
        return _RegionCounter(region, level).count() if known is None else known

    def holds(self, z: int, x: int, y: int) -> bool:
        """Tells whether a tile is one of them."""
        return z in self.zooms and self._region(z).touches(z, x, y)

    def _region(self, zoom: int) -> "_Region":
        if zoom not in self._regions:
            self._regions[zoom] = _Region(_pad_area(self.area, self.padding / 2**zoom))
        return self._regions[zoom]

    @cached_property
    def _regions(self) -> "dict[int, _Region]":
        return {}


class _Region:
    """An area, prepared for many tests of tiles."""

    def __init__(self, geometry: BaseGeometry) -> None:
        self.geometry = geometry
        shapely.prepare(geometry)

    def touches(self, z: int, x: int, y: int) -> bool:
        return bool(self.geometry.intersects(_tile_square(z, x, y)))

    def holds(self, z: int, x: int, y: int) -> bool:
        return bool(self.geometry.covers(_tile_square(z, x, y)))


class _RegionCounter:
    """Counts the tiles of a level in a region; estimates after MAX_VISITED_TILES visits."""

    def __init__(self, region: _Region, level: int) -> None:
        self._region, self._level, self._visited = region, level, 0

    def count(self) -> int:
        found = self._in(0, 0, 0)
        return self._estimate() if self._visited > MAX_VISITED_TILES else found

    def _estimate(self) -> int:
        """Estimates the count from the area's size and half of its edge."""
        geometry = self._region.geometry
        return int(geometry.area * 4**self._level + geometry.length * 2**self._level / 2)

    def _in(self, z: int, x: int, y: int) -> int:
        self._visited += 1
        if self._visited > MAX_VISITED_TILES or not self._region.touches(z, x, y):
            return 0
        if z == self._level:
            return 1
        if self._region.holds(z, x, y):
            return 1 << (2 * (self._level - z))
        return sum(self._in(z + 1, *child) for child in _child_tiles(x, y))


def _iter_region_tiles(region: _Region, z: int, x: int, y: int, level: int) -> Iterator[tuple[int, int]]:
    if not region.touches(z, x, y):
        return
    if z == level:
        yield x, y
        return
    for child in _child_tiles(x, y):
        yield from _iter_region_tiles(region, z + 1, *child, level)


def _count_box_tiles(geometry: BaseGeometry, level: int) -> int | None:
    """Counts the tiles of boxes beside one another, as bounds are; None for areas of other shapes."""
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


def _child_tiles(x: int, y: int) -> tuple[tuple[int, int], ...]:
    return (2 * x, 2 * y), (2 * x + 1, 2 * y), (2 * x, 2 * y + 1), (2 * x + 1, 2 * y + 1)


def _metatile_zoom(zoom: int, side: int) -> int:
    """Returns the zoom at which one tile covers a metatile."""
    return zoom - (min(side, 1 << zoom).bit_length() - 1)


def _tile_square(z: int, x: int, y: int) -> BaseGeometry:
    width = 0.5**z
    return shapely.box(x * width, y * width, (x + 1) * width, (y + 1) * width)


def _pad_area(area: BaseGeometry, padding: float) -> BaseGeometry:
    """Returns the area with padding around it, which goes on at the map's other side."""
    wide = area.buffer(padding, join_style="mitre")
    west, _, east, _ = wide.bounds if not wide.is_empty else (0.0, 0.0, 0.0, 0.0)
    if west < 0 or east > 1:
        wide = shapely.union_all([wide, *(shapely.affinity.translate(wide, step) for step in (-1.0, 1.0))])
    return shapely.intersection(wide, _WHOLE_MAP)
