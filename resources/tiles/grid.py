"""Slippy-map arithmetic: web-mercator projection, tiles, bounds. PURE.

Unit mercator: u grows eastwards from 0 at -180° to 1 at 180°, v grows southwards from 0 at
85.0511° north to 1 at 85.0511° south. A line that crosses the antimeridian runs on past 1.
Source: https://wiki.openstreetmap.org/wiki/Slippy_map_tilenames
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self, TypeAlias

import mercantile
import numpy as np

from .arrays import Floats, Indexes
from .errors import LayerError

MAX_ZOOM = 22
MAX_LATITUDE = 85.0511287798066
DRAWN_LATITUDE = 89.9
"""Geometry is kept a little beyond the map's edge, so that no stroke runs along the edge itself."""

PADDING = 0.125
"""How far beyond its geometry a layer shows something, in tiles, if nothing else is known."""

Box: TypeAlias = tuple[float, float, float, float]
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
        """Bounds from a list of four numbers. Raises LayerError when they are not a box on Earth."""
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

    def boxes(self) -> list[Box]:
        """The bounds as one or two boxes (u0, v0, u1, v1) within the unit square."""
        longitudes = [(self.west, self.east)]
        if self.crosses_antimeridian:
            longitudes = [(self.west, 180.0), (-180.0, self.east)]
        corners = [project(np.array([[west, self.north], [east, self.south]])) for west, east in longitudes]
        return [(float(c[0, 0]), float(c[0, 1]), float(c[1, 0]), float(c[1, 1])) for c in corners]

    def middle(self) -> tuple[float, float]:
        """Longitude and latitude of the middle, across the antimeridian if the bounds cross it."""
        east = self.east + 360.0 if self.crosses_antimeridian else self.east
        return math.remainder((self.west + east) / 2, 360.0), (self.south + self.north) / 2

    def rounded(self) -> Self:
        """The bounds to seven digits, a centimetre on Earth."""
        return type(self)(*(round(value, 7) for value in self.as_list()))

    def as_list(self) -> list[float]:
        return [self.west, self.south, self.east, self.north]


WORLD = Bounds(-180.0, -MAX_LATITUDE, 180.0, MAX_LATITUDE)


def project(positions: Floats, max_latitude: float = MAX_LATITUDE) -> Floats:
    """Unit-mercator coordinates of (longitude, latitude) rows; latitudes are clipped."""
    latitudes = np.radians(np.clip(positions[:, 1], -max_latitude, max_latitude))
    projected = np.empty((len(positions), 2))
    projected[:, 0] = (positions[:, 0] + 180.0) / 360.0
    projected[:, 1] = 0.5 - np.arcsinh(np.tan(latitudes)) / (2 * math.pi)
    if max_latitude == MAX_LATITUDE:
        np.clip(projected[:, 1], 0.0, 1.0, out=projected[:, 1])
    return projected


def unproject(coordinates: Floats) -> Floats:
    """(longitude, latitude) rows of unit-mercator coordinates."""
    positions = np.empty((len(coordinates), 2))
    positions[:, 0] = coordinates[:, 0] * 360.0 - 180.0
    positions[:, 1] = np.degrees(np.arctan(np.sinh((0.5 - coordinates[:, 1]) * 2 * math.pi)))
    return positions


def is_tile(z: int, x: int, y: int) -> bool:
    return 0 <= z <= MAX_ZOOM and 0 <= x < 2**z and 0 <= y < 2**z


def touches(bounds: Bounds, z: int, x: int, y: int, padding: float = PADDING) -> bool:
    """Whether a tile shows something of the bounds, `padding` (in tiles) around them included.

    The padding is for strokes: half of a line's width lies outside of its geometry.
    """
    return boxes_touch(bounds.boxes(), z, x, y, padding)


def boxes_touch(boxes: Iterable[Box], z: int, x: int, y: int, padding: float = PADDING) -> bool:
    """The same for the boxes of bounds, which take longer to make than to compare."""
    tiles = 2**z
    for u0, v0, u1, v1 in boxes:
        if not (v0 * tiles - padding <= y + 1 and y <= v1 * tiles + padding):
            continue
        for column in (x - tiles, x, x + tiles):
            if u0 * tiles - padding <= column + 1 and column <= u1 * tiles + padding:
                return True
    return False


def tile_bounds(z: int, x: int, y: int) -> Bounds:
    """The bounds of a tile."""
    return Bounds(*mercantile.bounds(x, y, z))


def tile_showing(bounds: Bounds, min_zoom: int, max_zoom: int) -> tuple[int, int, int]:
    """(z, x, y) of the smallest tile that holds the whole bounds, or of that in their middle when zooms forbid it."""
    around = mercantile.Tile(0, 0, 0) if bounds.crosses_antimeridian else mercantile.bounding_tile(*bounds.as_list())
    if min_zoom <= around.z <= max_zoom:
        return around.z, around.x, around.y
    zoom = min(max(around.z, min_zoom), max_zoom)
    u, v = project(np.array([bounds.middle()]))[0].tolist()
    last = 2**zoom - 1  # the tile that ends at 180° or at the map's southern edge
    return zoom, min(int(u * 2**zoom), last), min(int(v * 2**zoom), last)


def zoom_around(bounds: Bounds, min_zoom: int, max_zoom: int) -> int:
    """The zoom at which the bounds are one to two tiles wide, or the nearest that there is."""
    width = bounds.east - bounds.west + (360.0 if bounds.crosses_antimeridian else 0.0)
    span = max(width, 2 * (bounds.north - bounds.south), 360.0 / 2**MAX_ZOOM)
    return min(max(math.floor(math.log2(360.0 / span)) + 1, min_zoom), max_zoom)


def unwrap(longitudes: Floats, offsets: Indexes) -> Floats:
    """Longitudes in which no step goes the long way round, so that values may leave ±180°.

    Line i has the rows `offsets[i]:offsets[i + 1]`. A step of exactly 360° stays: that is a line
    drawn from one edge of the map to the other.
    """
    steps = np.diff(longitudes, prepend=longitudes[:1])
    steps[offsets[:-1]] = 0.0
    turns = np.cumsum(np.where((np.abs(steps) > 180.0) & (np.abs(steps) < 360.0), -np.sign(steps), 0.0))
    unwrapped: Floats = longitudes + 360.0 * (turns - np.repeat(turns[offsets[:-1]], np.diff(offsets)))
    return unwrapped


def enclosing(spans: Floats, v0: float, v1: float) -> Bounds:
    """The narrowest bounds around parts that span (u0, u1) each, from v0 down to v1."""
    south, north = (float(unproject(np.array([[0.5, min(max(v, 0.0), 1.0)]]))[0, 1]) for v in (v1, v0))
    west, east = _narrowest_arc(spans)
    return Bounds(west, south, east, north)


def _narrowest_arc(spans: Floats) -> tuple[float, float]:
    """West and east in degrees of the arc that leaves out the widest gap between the spans."""
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
