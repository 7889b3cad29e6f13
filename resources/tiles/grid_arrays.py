"""Slippy-map arithmetic for arrays: projection, z-order numbers, longitudes, and the types of arrays. PURE."""

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from .grid import MAX_LATITUDE, Bounds, unproject_place

Floats: TypeAlias = NDArray[np.float64]
"""Coordinates and measures."""

Indexes: TypeAlias = NDArray[np.int64]
"""Row numbers of another array."""

PixelPlaces: TypeAlias = NDArray[np.int64]
"""Whole pixels of a lattice or a canvas."""

ColourSamples: TypeAlias = NDArray[np.uint8]
"""Index colours of a window, row by row; 0 is nothing."""

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
    south, north = (unproject_place(0.5, min(max(v, 0.0), 1.0))[1] for v in (v1, v0))
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
