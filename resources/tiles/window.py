"""Windows on the lattice of pixels: the painted part of the map, of one tile or of several. PURE."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from .grid_arrays import Floats
from .tile_address import Tile

SUPERSAMPLING = 2
"""Lattice pixels along a pixel of a tile at scale 1."""

LATTICE_PIXELS = 256 * SUPERSAMPLING
"""Pixels of level 0, along the globe."""

CANVAS_MARGIN = 8
"""Pixels painted above, below and to the right of the window: shapes on its edge are drawn whole."""

CANVAS_LEFT = 1024
"""Pixels of canvas to the left of the window.

Pillow computes with 32-bit floats, and rounds negative numbers differently. This far to the right,
and with edges no longer than LONG_EDGE_PIXELS, positions between two pixels are rounded in the same
way wherever the window is: a tile has the same pixels alone and in a metatile.
"""

LONG_EDGE_PIXELS = 256.0


@dataclass(frozen=True, slots=True)
class Window:
    """The rectangle of lattice `level` with its corner at (x, y), in lattice pixels.

    It may reach beyond the map: over the antimeridian, round the globe several times, and into the
    void above the first row and below the last.
    """

    level: int
    x: int
    y: int
    width: int
    height: int

    @classmethod
    def of(cls, tile: Tile) -> Self:
        size = LATTICE_PIXELS * tile.scale
        return cls(tile.z + tile.scale - 1, tile.x * size, tile.y * size, size, size)

    @classmethod
    def around(cls, tiles: Sequence[Tile]) -> Self:
        """Returns the smallest window around some tiles of one zoom and scale."""
        each = [cls.of(tile) for tile in tiles]
        west, north = min(one.x for one in each), min(one.y for one in each)
        east, south = max(one.x + one.width for one in each), max(one.y + one.height for one in each)
        return cls(each[0].level, west, north, east - west, south - north)

    def within(self, other: Self) -> tuple[int, int, int, int]:
        """Returns the window's place in one that contains it: left, top, right, bottom."""
        left, top = self.x - other.x, self.y - other.y
        return left, top, left + self.width, top + self.height

    @property
    def globe(self) -> int:
        """The lattice's width in pixels: one turn of the globe."""
        return LATTICE_PIXELS << self.level

    @property
    def canvas_size(self) -> tuple[int, int]:
        """Width and height of the canvas: the window and its margins."""
        return CANVAS_LEFT + self.width + CANVAS_MARGIN, self.height + 2 * CANVAS_MARGIN

    @property
    def on_canvas_box(self) -> tuple[int, int, int, int]:
        """The window's place on the canvas: left, top, right, bottom."""
        return CANVAS_LEFT, CANVAS_MARGIN, CANVAS_LEFT + self.width, CANVAS_MARGIN + self.height

    def turns(self, west: float, east: float, reach: float) -> range:
        """Returns the turns of the globe by which geometry from `west` to `east` (unit mercator) moves into view."""
        first = (self.x - reach) / self.globe - east
        last = (self.x + self.width + reach) / self.globe - west
        return range(math.ceil(first), math.floor(last) + 1)

    def unit_box(self, reach: float, turn: int) -> tuple[float, float, float, float]:
        """Returns the rectangle with `reach` pixels around it in unit mercator, `turn` turns to the west."""
        west, north = self.x - turn * self.globe - reach, self.y - reach
        east, south = west + self.width + 2 * reach, north + self.height + 2 * reach
        return west / self.globe, north / self.globe, east / self.globe, south / self.globe

    def on_canvas(self, coordinates: Floats, turn: int) -> Floats:
        """Moves lattice coordinates by `turn` turns and returns them as pixels of the canvas."""
        moved: Floats = coordinates + np.array(
            [turn * self.globe - self.x + CANVAS_LEFT, CANVAS_MARGIN - self.y], np.float64
        )
        return moved

    def canvas_reach(self, reach: float) -> tuple[Floats, Floats]:
        """Returns the corners (x, y) of the window with `reach` pixels around it, on the canvas."""
        left, top, right, bottom = self.on_canvas_box
        return np.array([left - reach, top - reach]), np.array([right + reach, bottom + reach])

    def near(self, starts: Floats, ends: Floats, reach: float) -> NDArray[np.bool_]:
        """Tells for each edge (on the canvas) whether its box comes within `reach` of the window."""
        low, high = self.canvas_reach(reach)
        met = (np.minimum(starts, ends) <= high) & (np.maximum(starts, ends) >= low)
        return np.asarray(met.all(axis=1))

    def cut(self, start: Floats, end: Floats, reach: float) -> Floats:
        """Returns the points of a long edge around the window; none when it passes by.

        Their places depend on the edge alone, so that all windows round it alike.
        """
        step = end - start
        pieces = math.ceil(float(np.abs(step).max()) / LONG_EDGE_PIXELS)
        enters, leaves = self._shares(start, step, reach)
        if enters > leaves:
            return np.empty((0, 2))
        places = np.arange(math.floor(enters * pieces), math.ceil(leaves * pieces) + 1, dtype=np.float64)
        points: Floats = start + np.floor(step * (places / pieces)[:, None] + 0.5)
        return points

    def _shares(self, start: Floats, step: Floats, reach: float) -> tuple[float, float]:
        """Returns the shares of its length between which an edge is within reach; in falling order if it never is."""
        enters, leaves = 0.0, 1.0
        for origin, way, low, high in zip(start, step, *self.canvas_reach(reach), strict=True):
            if way == 0:
                if not low <= origin <= high:
                    return 1.0, 0.0
                continue
            near, far = sorted(((low - origin) / way, (high - origin) / way))
            enters, leaves = max(enters, float(near)), min(leaves, float(far))
        return enters, leaves
