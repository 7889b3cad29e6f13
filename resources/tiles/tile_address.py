"""A tile, its metatile and its pixel window: addresses, keys and the rectangle of the lattice that they show. PURE."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from ..image_formats import DEFAULT_TILE_FORMAT, TILE_FORMATS
from ..traffic.asked import Asked
from . import grid

MAX_ADDRESS_LENGTH = 120
SLUG_PATTERN = r"[a-z0-9][a-z0-9_-]{0,49}"
SLUG_RULE = "Small letters, digits, “-” and “_”, 50 at most."

TILE_KIND = "tile"
TILES_PATH = "/tiles/"

_NUMBER = r"0|[1-9][0-9]{0,6}"
_ADDRESS = re.compile(
    rf"(?P<layer>{SLUG_PATTERN})/(?P<z>{_NUMBER})/(?P<x>{_NUMBER})/(?P<y>{_NUMBER})(?P<twice>@2x)?\.(?P<format>{'|'.join(TILE_FORMATS)})",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Tile:
    """A tile that exists on the grid. Its layer may not exist."""

    layer: str
    z: int
    x: int
    y: int
    scale: int = 1
    format: str = DEFAULT_TILE_FORMAT

    @classmethod
    def parse(cls, address: str) -> Self | None:
        """Reads `layer/z/x/y[@2x].format`; None for any address not written exactly like that."""
        match = _ADDRESS.fullmatch(address) if len(address) <= MAX_ADDRESS_LENGTH else None
        if match is None:
            return None
        z, x, y = int(match["z"]), int(match["x"]), int(match["y"])
        if not grid.is_tile(z, x, y):
            return None
        return cls(match["layer"], z, x, y, 2 if match["twice"] else 1, match["format"])

    @classmethod
    def of_key(cls, content_key: str) -> Self | None:
        """Returns the tile of a content key; None for the key of anything else."""
        match content_key.split(":"):
            case [kind, layer, z, x, y, image_format] if kind == TILE_KIND:
                return cls.parse(f"{layer}/{z}/{x}/{y}.{image_format}")
            case _:
                return None

    @property
    def content_key(self) -> str:
        return f"{TILE_KIND}:{self.layer}:{self.z}:{self.x}:{self.y}{self._density}:{self.format}"

    @property
    def path(self) -> str:
        return f"{TILES_PATH}{self.layer}/{self.z}/{self.x}/{self.y}{self._density}.{self.format}"

    @property
    def content_type(self) -> str:
        return TILE_FORMATS[self.format].media_type

    @property
    def _density(self) -> str:
        return "@2x" if self.scale == 2 else ""


METATILE_SIDES = (1, 2, 4, 8)
"""Possible widths of a metatile, in tiles."""


@dataclass(frozen=True, slots=True)
class Metatile:
    """`side` × `side` tiles of one zoom, beginning with (x · side, y · side).

    Sides are powers of two and metatiles are aligned: a metatile covers the same area as the tile
    (x, y) of the zoom that is log2(side) lower.
    """

    layer: str
    z: int
    x: int
    y: int
    side: int
    scale: int = 1
    format: str = DEFAULT_TILE_FORMAT

    @classmethod
    def around(cls, tile: Tile, side: int) -> Self:
        """Returns the metatile around a tile; its side is at most the number of tiles along the zoom."""
        side = min(side, 1 << tile.z)
        return cls(tile.layer, tile.z, tile.x // side, tile.y // side, side, tile.scale, tile.format)

    def tiles(self, bounds: grid.Bounds, padding: float) -> list[Tile]:
        """Returns its tiles that show something of the bounds, `padding` (in tiles) around them included."""
        boxes = bounds.boxes()
        return [
            Tile(self.layer, self.z, x, y, self.scale, self.format)
            for y in range(self.y * self.side, (self.y + 1) * self.side)
            for x in range(self.x * self.side, (self.x + 1) * self.side)
            if grid.boxes_touch(boxes, self.z, x, y, padding)
        ]

    def work_key(self, version: int) -> str:
        """Names the work of painting it from that version of the layer's data."""
        variant = f"{'@2x' if self.scale == 2 else ''}{'' if self.format == DEFAULT_TILE_FORMAT else self.format}"
        key = f"paint:{self.layer}:{version}:{self.z}:{self.x}:{self.y}:{self.side}"
        return f"{key}:{variant}" if variant else key

    @property
    def kind(self) -> str:
        return f"paint:{self.layer}:{self.z}:{self.side}"


def metatile_side(metatiles: Mapping[int, int], zoom: int, scale: int) -> int:
    """Returns the side of a layer's metatiles: that of the zoom, else of the nearest lower zoom, else 1.

    Tiles of scale 2 have four times the pixels: their metatiles are half as wide.
    """
    measured = max((known for known in metatiles if known <= zoom), default=None)
    side = 1 if measured is None else metatiles[measured]
    return max(1, side // scale)


def read_metatile_sides(kept: Mapping[str, object]) -> dict[int, int]:
    """Reads the sides by zoom from the field of a layer's row. Leaves out values that are no side of a metatile."""
    return {int(zoom): int(side) for zoom, side in kept.items() if zoom.isdecimal() and side in METATILE_SIDES}


def parse_requested_tile(address: str) -> Asked | None:
    """Returns the tile's content key, grouped by its layer; None for addresses of no tile."""
    wanted = Tile.parse(address.removeprefix(TILES_PATH))
    return None if wanted is None else Asked(TILE_KIND, wanted.layer, wanted.content_key, part=str(wanted.z))
