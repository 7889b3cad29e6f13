"""Blocks of tiles (metatiles): what one piece of work paints, and the names that come from it. PURE."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from . import grid
from .tile import Tile

SIDES = (1, 2, 4, 8)
"""How many tiles wide a block can be."""


@dataclass(frozen=True, slots=True)
class Block:
    """`side` × `side` tiles of one zoom, the first of which is (x · side, y · side).

    Sides are powers of two and blocks are aligned, so that a block covers what the tile (x, y) does
    on the zoom that has so many times fewer tiles.
    """

    layer: str
    z: int
    x: int
    y: int
    side: int
    scale: int = 1
    format: str = "png"

    @classmethod
    def around(cls, tile: Tile, side: int) -> Self:
        """The block of that side, or of as many tiles as the zoom has, that a tile is in."""
        side = min(side, 1 << tile.z)
        return cls(tile.layer, tile.z, tile.x // side, tile.y // side, side, tile.scale, tile.format)

    def tiles(self, bounds: grid.Bounds, padding: float) -> list[Tile]:
        """Its tiles that show something of the bounds, `padding` (in tiles) around them included."""
        boxes = bounds.boxes()
        return [
            Tile(self.layer, self.z, x, y, self.scale, self.format)
            for y in range(self.y * self.side, (self.y + 1) * self.side)
            for x in range(self.x * self.side, (self.x + 1) * self.side)
            if grid.boxes_touch(boxes, self.z, x, y, padding)
        ]

    def work_key(self, version: int) -> str:
        """The name of painting it from that version of the layer's data."""
        variant = f"{'@2x' if self.scale == 2 else ''}{'' if self.format == 'png' else self.format}"
        key = f"paint:{self.layer}:{version}:{self.z}:{self.x}:{self.y}:{self.side}"
        return f"{key}:{variant}" if variant else key

    @property
    def kind(self) -> str:
        return f"paint:{self.layer}:{self.z}:{self.side}"


def side_at(metatiles: Mapping[int, int], zoom: int, scale: int) -> int:
    """The side of a layer's blocks: that of the zoom, else of the nearest zoom before it, else 1.

    Tiles of twice the scale have four times the pixels: their blocks are half as wide.
    """
    measured = max((known for known in metatiles if known <= zoom), default=None)
    side = 1 if measured is None else metatiles[measured]
    return max(1, side // scale)


def read_sides(kept: Mapping[str, object]) -> dict[int, int]:
    """The sides by zoom, from what a layer's row keeps. Leaves out what is no side of a block."""
    return {int(zoom): int(side) for zoom, side in kept.items() if zoom.isdecimal() and side in SIDES}
