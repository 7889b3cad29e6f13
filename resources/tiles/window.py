"""The part of the lattice that one tile shows. PURE."""

import math
from dataclasses import dataclass
from typing import Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .simplifying import LATTICE_PIXELS
from .tile import Tile

MARGIN = 8
"""Pixels painted around the tile: Pillow rounds negative coordinates differently."""

LONG_EDGE = 1024.0
REACH = 4096.0
"""Nothing is drawn farther from the tile: coordinates stay exact in 32-bit floats."""

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Window:
    """A tile's square on lattice `level`, its corner at (x, y) and `size` pixels wide."""

    level: int
    x: int
    y: int
    size: int

    @classmethod
    def of(cls, tile: Tile) -> Self:
        size = LATTICE_PIXELS * tile.scale
        return cls(tile.z + tile.scale - 1, tile.x * size, tile.y * size, size)

    @property
    def globe(self) -> int:
        """The lattice's width in pixels: one turn of the globe."""
        return LATTICE_PIXELS << self.level

    def unit_box(self, reach: float, turn: int) -> tuple[float, float, float, float]:
        """The square with `reach` pixels around it in unit mercator, `turn` turns to the west."""
        west, north = self.x - turn * self.globe - reach, self.y - reach
        side = self.size + 2 * reach
        return west / self.globe, north / self.globe, (west + side) / self.globe, (north + side) / self.globe

    def on_canvas(self, coordinates: Floats, turn: int) -> Floats:
        """Lattice coordinates, moved by `turn` turns, as pixels of the canvas (the tile and its margin)."""
        moved: Floats = coordinates + np.array([turn * self.globe - self.x + MARGIN, MARGIN - self.y], np.float64)
        return moved

    def near(self, starts: Floats, ends: Floats, reach: float) -> NDArray[np.bool_]:
        """Whether edges (on the canvas) have boxes that come within `reach` of the tile."""
        low, high = MARGIN - reach, MARGIN + self.size + reach
        met = (np.minimum(starts, ends) <= high) & (np.maximum(starts, ends) >= low)
        return np.asarray(met.all(axis=1))

    def cut(self, start: Floats, end: Floats, reach: float) -> Floats:
        """The points of a long edge around the tile, empty when it passes by.

        They stand at places that depend on the edge alone, so that all tiles round it alike.
        """
        low, high = MARGIN - reach, MARGIN + self.size + reach
        pieces = math.ceil(float(np.abs(end - start).max()) / LONG_EDGE)
        enters, leaves = 0.0, 1.0
        for origin, step in zip(start.tolist(), (end - start).tolist(), strict=True):
            if step == 0:
                if not low <= origin <= high:
                    return np.empty((0, 2))
                continue
            sides = sorted(((low - origin) / step, (high - origin) / step))
            enters, leaves = max(enters, sides[0]), min(leaves, sides[1])
        if enters > leaves:
            return np.empty((0, 2))
        places = np.arange(math.floor(enters * pieces), math.ceil(leaves * pieces) + 1, dtype=np.float64)
        return np.floor(start + (end - start) * (places / pieces)[:, None] + 0.5)
