"""Slippy-map arithmetic: web-mercator projection of places, tiles, bounds, z-order numbers. PURE.

Unit mercator: u grows eastwards from 0 at -180° to 1 at 180°, v grows southwards from 0 at
85.0511° north to 1 at 85.0511° south. A line that crosses the antimeridian runs on past 1.
Source: https://wiki.openstreetmap.org/wiki/Slippy_map_tilenames

Z-order: a tile's number has the bits of its column and row interleaved (Morton). The number of the tile that
covers it one zoom lower is a quarter of it, rounded down: tiles of a metatile are consecutive.

The same for arrays is in `grid_arrays`: most processes that know a tile need none.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self, TypeAlias

from .errors import LayerError


def tile_key(x: int, y: int) -> int:
    """Returns the number of one tile: plain integers are quicker than an array of one."""
    key = 0
    for bit in range(max(x, y).bit_length()):
        key |= (x >> bit & 1) << 2 * bit | (y >> bit & 1) << 2 * bit + 1
    return key


def quadkey(z: int, x: int, y: int) -> str:
    """Returns a tile's number with a digit per zoom, as Bing Maps writes it; empty at zoom 0."""
    key = tile_key(x, y)
    return "".join(str(key >> 2 * place & 3) for place in reversed(range(z)))


MAX_ZOOM = 22
MAX_LATITUDE = 85.0511287798066
DRAWN_LATITUDE = 89.9
"""Geometry is kept to a little beyond the map's edge, so that no stroke runs along the edge itself."""

_EDGE = 1e-12
"""Inaccuracy of a projected edge, in unit mercator."""

DEFAULT_PADDING_TILES = 0.125
"""Distance beyond its geometry up to which a layer is seen, in tiles, if nothing else is known."""

UnitBox: TypeAlias = tuple[float, float, float, float]
"""u0, v0, u1, v1 in unit mercator."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """A box in degrees. With `west` > `east` it crosses the antimeridian."""

    west: float
    south: float
    east: float
    north: float

    @classmethod
    def parse(cls, values: object) -> Self:
        """Reads bounds from a list of four numbers. Raises LayerError when they are not a box on Earth."""
        if not isinstance(values, list | tuple) or len(values) != 4:
            raise LayerError("Bounds are four numbers: west, south, east, north.")
        if not all(type(value) in (int, float) for value in values):
            raise LayerError("Bounds are four numbers: west, south, east, north.")
        west, south, east, north = values
        if not (-180 <= west <= 180 and -180 <= east <= 180 and -90 <= south <= north <= 90):
            raise LayerError("Bounds lie within -180..180 and -90..90 degrees, the south not above the north.")
        return cls(*map(float, values))  # only now: an integer of a thousand digits does not become a float

    @property
    def crosses_antimeridian(self) -> bool:
        return self.west > self.east

    def boxes(self) -> list[UnitBox]:
        """Returns the bounds as one or two boxes (u0, v0, u1, v1) within the unit square."""
        longitudes = [(self.west, self.east)]
        if self.crosses_antimeridian:
            longitudes = [(self.west, 180.0), (-180.0, self.east)]
        return [(*project_place(west, self.north), *project_place(east, self.south)) for west, east in longitudes]

    def middle(self) -> tuple[float, float]:
        """Returns longitude and latitude of the middle, across the antimeridian if the bounds cross it."""
        east = self.east + 360.0 if self.crosses_antimeridian else self.east
        return math.remainder((self.west + east) / 2, 360.0), (self.south + self.north) / 2

    def rounded(self) -> Self:
        """Rounds the bounds to seven digits, a centimetre on Earth."""
        return type(self)(*(round(value, 7) for value in self.as_list()))

    def as_list(self) -> list[float]:
        return [self.west, self.south, self.east, self.north]


WORLD = Bounds(-180.0, -MAX_LATITUDE, 180.0, MAX_LATITUDE)


def project_place(longitude: float, latitude: float) -> tuple[float, float]:
    """Projects a place to unit mercator; the latitude is clipped."""
    radians = math.radians(min(max(latitude, -MAX_LATITUDE), MAX_LATITUDE))
    v = 0.5 - math.asinh(math.tan(radians)) / (2 * math.pi)
    return (longitude + 180.0) / 360.0, min(max(v, 0.0), 1.0)


def unproject_place(u: float, v: float) -> tuple[float, float]:
    """Returns longitude and latitude."""
    return u * 360.0 - 180.0, math.degrees(math.atan(math.sinh((0.5 - v) * 2 * math.pi)))


def is_tile(z: int, x: int, y: int) -> bool:
    return 0 <= z <= MAX_ZOOM and 0 <= x < 2**z and 0 <= y < 2**z


def bounds_touch_tile(bounds: Bounds, z: int, x: int, y: int, padding: float = DEFAULT_PADDING_TILES) -> bool:
    """Tells whether a tile shows something of the bounds, `padding` (in tiles) around them included.

    The padding is for strokes: half of a line's width lies outside its geometry.
    """
    return boxes_touch(bounds.boxes(), z, x, y, padding)


def boxes_touch(boxes: Iterable[UnitBox], z: int, x: int, y: int, padding: float = DEFAULT_PADDING_TILES) -> bool:
    """Does the same for the boxes of bounds, which take longer to make than to compare."""
    tiles = 2**z
    for u0, v0, u1, v1 in boxes:
        if not (v0 * tiles - padding <= y + 1 and y <= v1 * tiles + padding):
            continue
        for column in (x - tiles, x, x + tiles):
            if u0 * tiles - padding <= column + 1 and column <= u1 * tiles + padding:
                return True
    return False


def tile_bounds(z: int, x: int, y: int) -> Bounds:
    return Bounds(*unproject_place(x / 2**z, (y + 1) / 2**z), *unproject_place((x + 1) / 2**z, y / 2**z))


def tile_around(bounds: Bounds, min_zoom: int, max_zoom: int) -> tuple[int, int, int]:
    """Returns (z, x, y) of the smallest tile around all of the bounds, or of one at their middle if zooms forbid it."""
    zoom = min(max(_smallest_tile_zoom(bounds), min_zoom), max_zoom)
    u, v = project_place(*bounds.middle())
    last = 2**zoom - 1  # the tile that ends at 180° or at the map's southern edge
    return zoom, min(int(u * 2**zoom), last), min(int(v * 2**zoom), last)


def _smallest_tile_zoom(bounds: Bounds) -> int:
    """Returns the highest zoom at which one tile holds all of the bounds. Touching the next tile does not count."""
    if bounds.crosses_antimeridian:
        return 0
    [(u0, v0, u1, v1)] = bounds.boxes()
    spans = [(low + _EDGE, max(high - _EDGE, low + _EDGE)) for low, high in ((u0, u1), (v0, v1))]
    differing = [int(low * 2**MAX_ZOOM) ^ int(high * 2**MAX_ZOOM) for low, high in spans]
    return MAX_ZOOM - max(differing).bit_length()


def zoom_around(bounds: Bounds, min_zoom: int, max_zoom: int) -> int:
    """Returns the zoom at which the bounds are one to two tiles wide, or the nearest in the range."""
    width = bounds.east - bounds.west + (360.0 if bounds.crosses_antimeridian else 0.0)
    span = max(width, 2 * (bounds.north - bounds.south), 360.0 / 2**MAX_ZOOM)
    return min(max(math.floor(math.log2(360.0 / span)) + 1, min_zoom), max_zoom)
