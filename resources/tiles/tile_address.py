"""A tile, its metatile and its pixel window: addresses, keys and the rectangle of the lattice that they show. PURE."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ..image_formats import DEFAULT_TILE_FORMAT, TILE_FORMATS
from ..traffic.asked import Asked
from . import grid
from .grid import Floats

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
