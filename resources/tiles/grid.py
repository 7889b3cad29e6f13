"""Slippy-map arithmetic: web-mercator projection, tiles, bounds, z-order numbers, array types. PURE.

Unit mercator: u grows eastwards from 0 at -180° to 1 at 180°, v grows southwards from 0 at
85.0511° north to 1 at 85.0511° south. A line that crosses the antimeridian runs on past 1.
Source: https://wiki.openstreetmap.org/wiki/Slippy_map_tilenames

Z-order: a tile's number has the bits of its column and row interleaved (Morton). The number of the tile that
covers it one zoom lower is a quarter of it, rounded down: tiles of a metatile are consecutive.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .errors import LayerError

TileKeys: TypeAlias = NDArray[np.int64]
"""Numbers of tiles of one zoom: sorted, each once."""

_SPREAD_MASKS = (
    (16, 0x0000FFFF0000FFFF),
    (8, 0x00FF00FF00FF00FF),
    (4, 0x0F0F0F0F0F0F0F0F),
    (2, 0x3333333333333333),
    (1, 0x5555555555555555),
)
_EVEN_BITS = 0x5555555555555555
_GATHER_MASKS = (
    (1, 0x3333333333333333),
    (2, 0x0F0F0F0F0F0F0F0F),
    (4, 0x00FF00FF00FF00FF),
    (8, 0x0000FFFF0000FFFF),
    (16, 0x00000000FFFFFFFF),
)


def no_keys() -> TileKeys:
    return np.empty(0, np.int64)


def tile_keys(x: TileKeys, y: TileKeys) -> TileKeys:
    """Returns the numbers of tiles, in the given order."""
    keys: TileKeys = _spread_bits(x) | (_spread_bits(y) << 1)
    return keys


def tile_key(x: int, y: int) -> int:
    """Returns the number of one tile: plain integers are quicker than an array of one."""
    key = 0
    for bit in range(max(x, y).bit_length()):
        key |= (x >> bit & 1) << 2 * bit | (y >> bit & 1) << 2 * bit + 1
    return key


def quadkey(z: int, x: int, y: int) -> str:
    """Returns a tile's number with a digit per zoom, as Bing Maps writes it; empty at zoom 0."""
    return np.base_repr(tile_key(x, y), 4).zfill(z) if z else ""


def key_places(keys: TileKeys) -> tuple[TileKeys, TileKeys]:
    """Returns columns and rows."""
    return _gather_bits(keys), _gather_bits(keys >> 1)


def _spread_bits(values: TileKeys) -> TileKeys:
    spread: TileKeys = values.astype(np.int64)
    for shift, mask in _SPREAD_MASKS:
        spread = (spread | (spread << shift)) & mask
    return spread


def _gather_bits(keys: TileKeys) -> TileKeys:
    gathered: TileKeys = keys & _EVEN_BITS
    for shift, mask in _GATHER_MASKS:
        gathered = (gathered | (gathered >> shift)) & mask
    return gathered


Floats: TypeAlias = NDArray[np.float64]
"""Coordinates and measures."""

Indexes: TypeAlias = NDArray[np.int64]
"""Row numbers of another array."""

PixelPlaces: TypeAlias = NDArray[np.int64]
"""Whole pixels of a lattice or a canvas."""

ColourSamples: TypeAlias = NDArray[np.uint8]
"""Index colours of a window, row by row; 0 is nothing."""


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
        corners = [project_positions(np.array([[west, self.north], [east, self.south]])) for west, east in longitudes]
        return [(float(c[0, 0]), float(c[0, 1]), float(c[1, 0]), float(c[1, 1])) for c in corners]

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


def project_positions(positions: Floats, max_latitude: float = MAX_LATITUDE) -> Floats:
    """Projects (longitude, latitude) rows to unit mercator; latitudes are clipped."""
    latitudes = np.radians(np.clip(positions[:, 1], -max_latitude, max_latitude))
    projected = np.empty((len(positions), 2))
    projected[:, 0] = (positions[:, 0] + 180.0) / 360.0
    projected[:, 1] = 0.5 - np.arcsinh(np.tan(latitudes)) / (2 * math.pi)
    if max_latitude == MAX_LATITUDE:
        np.clip(projected[:, 1], 0.0, 1.0, out=projected[:, 1])
    return projected


def unproject_coordinates(coordinates: Floats) -> Floats:
    positions = np.empty((len(coordinates), 2))
    positions[:, 0] = coordinates[:, 0] * 360.0 - 180.0
    positions[:, 1] = np.degrees(np.arctan(np.sinh((0.5 - coordinates[:, 1]) * 2 * math.pi)))
    return positions


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
    corners = unproject_coordinates(np.array([[x, y + 1], [x + 1, y]]) / 2**z)
    return Bounds(*corners.ravel().tolist())


def tile_around(bounds: Bounds, min_zoom: int, max_zoom: int) -> tuple[int, int, int]:
    """Returns (z, x, y) of the smallest tile around all of the bounds, or of one at their middle if zooms forbid it."""
    zoom = min(max(_smallest_tile_zoom(bounds), min_zoom), max_zoom)
    u, v = project_positions(np.array([bounds.middle()]))[0].tolist()
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


def unwrap_longitudes(longitudes: Floats, offsets: Indexes) -> Floats:
    """Returns longitudes in which no step goes the long way round; they may leave ±180°.

    Line i has the rows `offsets[i]:offsets[i + 1]`. A step of exactly 360° stays: that is a line
    drawn from one edge of the map to the other.
    """
    steps = np.diff(longitudes, prepend=longitudes[:1])
    steps[offsets[:-1]] = 0.0
    turns = np.cumsum(np.where((np.abs(steps) > 180.0) & (np.abs(steps) < 360.0), -np.sign(steps), 0.0))
    unwrapped: Floats = longitudes + 360.0 * (turns - np.repeat(turns[offsets[:-1]], np.diff(offsets)))
    return unwrapped


def enclosing_bounds(spans: Floats, v0: float, v1: float) -> Bounds:
    """Returns the narrowest bounds around parts that span (u0, u1) each, from v0 down to v1."""
    south, north = (float(unproject_coordinates(np.array([[0.5, min(max(v, 0.0), 1.0)]]))[0, 1]) for v in (v1, v0))
    west, east = _narrowest_arc(spans)
    return Bounds(west, south, east, north)


def _narrowest_arc(spans: Floats) -> tuple[float, float]:
    """Returns west and east, in degrees, of the arc that leaves out the widest gap between the spans."""
    starts = np.mod(spans[:, 0], 1.0)
    ends = starts + (spans[:, 1] - spans[:, 0])
    order = np.argsort(starts, kind="stable")
    starts, reached = starts[order], np.maximum.accumulate(ends[order])
    gap_at_seam = starts[0] + 1.0 - reached[-1]
    gaps = starts[1:] - np.maximum(reached[:-1], reached[-1] - 1.0)
    if len(gaps) and gaps.max() > max(gap_at_seam, 0.0):
        widest = int(gaps.argmax())
        west, east = float(starts[widest + 1]), float(max(reached[widest], reached[-1] - 1.0))
        return west * 360.0 - 180.0, math.remainder(east * 360.0 - 180.0, 360.0)
    if gap_at_seam <= 0:
        return -180.0, 180.0
    east = float(reached[-1])
    return float(starts[0]) * 360.0 - 180.0, east * 360.0 - 180.0 - (360.0 if east > 1.0 else 0.0)
