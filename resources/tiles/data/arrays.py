"""Compiled geometry and points: flat arrays, written to files and read.

Geometry is in unit mercator. Points are places on the finest lattice: all arithmetic on them is of whole
numbers, so that neither the order of the points nor the painted part of the map changes a result.
"""

import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from .. import grid, grid_arrays
from ..errors import LayerError
from ..grid_arrays import Floats, Indexes, PixelPlaces
from ..window import LATTICE_PIXELS, Window
from . import geojson
from .geojson import PointFeatures

POINTS_FORMAT = 1
"""Grows when the arrays change their meaning."""

MAX_AREA_TURNS = 2
"""Largest extent of an area, in turns of the globe."""


@dataclass(frozen=True, slots=True, eq=False)
class Geometry:
    """Parts (lines, rings) of groups (a line; a polygon with its holes) of features.

    Part i has the rows `offsets[i]:offsets[i + 1]` of `coordinates`, group i the parts
    `groups[i]:groups[i + 1]`, beginning with its outer ring.
    """

    coordinates: Floats
    offsets: Indexes
    rings: NDArray[np.bool_]
    groups: Indexes
    features: NDArray[np.int32]
    bounds: grid.Bounds


def compile_geometry(features: Sequence[geojson.LayerFeature]) -> Geometry:
    """Projects checked features and joins them into arrays. Does not simplify them. Raises LayerError."""
    owned = _cut_by_turns([(number, part) for number, feature in enumerate(features) for part in feature.parts])
    parts = [part for _, part in owned]
    owners = [number for number, part in owned if part.opens_group]
    opens = np.array([part.opens_group for part in parts], dtype=np.bool_)
    rings = np.array([part.is_ring for part in parts], dtype=np.bool_)
    positions, offsets = _unwrap_parts(parts)
    coordinates, offsets = _close_round_poles(
        grid_arrays.project_positions(positions, grid.DRAWN_LATITUDE), offsets, rings
    )
    spans = _shift_into_map(coordinates, offsets, opens)
    return Geometry(
        coordinates=coordinates,
        offsets=offsets,
        rings=rings,
        groups=np.append(np.flatnonzero(opens), len(parts)).astype(np.int64),
        features=np.array(owners, dtype=np.int32),
        bounds=grid_arrays.enclosing_bounds(spans, float(coordinates[:, 1].min()), float(coordinates[:, 1].max())),
    )


def _unwrap_parts(parts: Sequence[geojson.FeaturePart]) -> tuple[Floats, Indexes]:
    """Returns all positions, each part's longitudes running on past ±180°, and the parts' offsets."""
    offsets = np.concatenate(([0], np.cumsum([len(part.positions) for part in parts]))).astype(np.int64)
    positions = np.concatenate([part.positions for part in parts])
    positions[:, 0] = grid_arrays.unwrap_longitudes(positions[:, 0], offsets)
    return positions, offsets


def _cut_by_turns(owned: list[tuple[int, geojson.FeaturePart]]) -> list[tuple[int, geojson.FeaturePart]]:
    """Returns the parts with their features' numbers; cuts lines round the globe (orbits) into pieces of a turn.

    Painting looks at each part once for every turn that any part reaches.
    """
    positions, offsets = _unwrap_parts([part for _, part in owned])
    longitudes, starts = positions[:, 0], offsets[:-1]
    spans = np.maximum.reduceat(longitudes, starts) - np.minimum.reduceat(longitudes, starts)
    cut = list(owned)
    for place in np.flatnonzero(spans > 360.0)[::-1].tolist():
        number, part = owned[place]
        if not part.is_ring:
            pieces = _line_pieces(part, longitudes[offsets[place] : offsets[place + 1]])
            cut[place : place + 1] = [(number, piece) for piece in pieces]
        elif spans[place] > 360.0 * MAX_AREA_TURNS:
            raise LayerError(f"Feature {number + 1}: an area goes round the globe {spans[place] / 360.0:.0f} times.")
    return cut


def _line_pieces(line: geojson.FeaturePart, longitudes: Floats) -> Iterator[geojson.FeaturePart]:
    """Yields a line's pieces, each beginning with the last position of the piece before."""
    turns = np.floor((longitudes - longitudes[0]) / 360.0)
    ends = [0, *(np.flatnonzero(np.diff(turns)) + 1).tolist(), len(longitudes) - 1]
    for first, last in pairwise(ends):
        if last > first:
            yield replace(line, positions=line.positions[first : last + 1])


def _close_round_poles(coordinates: Floats, offsets: Indexes, rings: NDArray[np.bool_]) -> tuple[Floats, Indexes]:
    """Closes rings round a pole beyond the map's edge, for they end a whole turn away."""
    ends = offsets[1:]
    round_pole = rings & (np.abs(coordinates[ends - 1, 0] - coordinates[offsets[:-1], 0]) > 0.5)
    lengths = np.diff(offsets)
    for part in np.flatnonzero(round_pole)[::-1]:  # from the end, so that earlier offsets stay right
        first, last = coordinates[offsets[part]], coordinates[ends[part] - 1]
        beyond = 2.0 if coordinates[offsets[part] : ends[part], 1].mean() > 0.5 else -1.0  # see canvas.POLE_TURNS
        pole = [[last[0], beyond], [first[0], beyond], first.tolist()]
        coordinates = np.insert(coordinates, ends[part], pole, axis=0)
        lengths[part] += len(pole)
    return coordinates, np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)


def _shift_into_map(coordinates: Floats, offsets: Indexes, opens: NDArray[np.bool_]) -> Floats:
    """Moves each group by whole turns until it starts within the map. Returns each part's (u0, u1)."""
    lows = np.minimum.reduceat(coordinates[:, 0], offsets[:-1])
    highs = np.maximum.reduceat(coordinates[:, 0], offsets[:-1])
    shifts = -np.floor(lows)
    outer = np.maximum.accumulate(np.where(opens, np.arange(len(opens)), 0))
    centres = (lows + highs) / 2
    # A hole stays on the same turn of the globe as its outer ring.
    shifts = np.where(opens, shifts, np.round(centres[outer] + shifts[outer] - centres))
    coordinates[:, 0] += np.repeat(shifts, np.diff(offsets))
    return np.column_stack((lows + shifts, highs + shifts))


def write_geometry(geometry: Geometry, ids: Sequence[str]) -> bytes:
    """Writes the geometry as an .npz file; equal geometries make equal bytes."""
    buffer = io.BytesIO()
    np.savez(
        buffer,
        format=np.int64(POINTS_FORMAT),
        coordinates=geometry.coordinates,
        offsets=geometry.offsets,
        rings=geometry.rings,
        groups=geometry.groups,
        features=geometry.features,
        bounds=np.array(geometry.bounds.as_list()),
        ids=np.frombuffer(json.dumps(list(ids), ensure_ascii=False).encode(), dtype=np.uint8),
    )
    return buffer.getvalue()


def read_geometry(data: bytes) -> Geometry:
    """Reads the geometry of an .npz file. Does not read the segments' ids."""
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        kept = {name: arrays[name] for name in ("coordinates", "offsets", "rings", "groups", "features")}
        return Geometry(**kept, bounds=grid.Bounds(*arrays["bounds"].tolist()))


def read_segment_ids(data: bytes) -> list[str]:
    """Reads the segments' ids, in the order of the features, from a geometry's .npz file."""
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        ids: list[str] = json.loads(arrays["ids"].tobytes())
        return ids


FINEST_LEVEL = 23
"""The lattice level of places: that of tiles of the largest zoom at scale 2."""

GLOBE_BITS = FINEST_LEVEL + LATTICE_PIXELS.bit_length() - 1
GLOBE_UNITS = 1 << GLOBE_BITS
"""One turn of the globe: places are whole numbers below it."""


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """Points in the order of their places. Points beyond the map's latitudes stand on its edge."""

    x: PixelPlaces
    y: PixelPlaces
    weights: Floats


@dataclass(frozen=True, slots=True, eq=False)
class PointsInView:
    """The places near a window: their row numbers, and their x and y in lattice pixels from its corner."""

    chosen: Indexes
    x: PixelPlaces
    y: PixelPlaces


def compile_points(features: PointFeatures) -> tuple[Points, grid.Bounds]:
    """Projects points and rounds them to the finest lattice. Also returns their bounds."""
    projected = grid_arrays.project_positions(features.positions)
    placed = np.floor(projected * float(GLOBE_UNITS)).astype(np.int64)
    x, y = placed[:, 0] % GLOBE_UNITS, np.clip(placed[:, 1], 0, GLOBE_UNITS - 1)
    order = np.lexsort((features.weights, x, y))
    u, v = np.mod(projected[:, 0], 1.0), projected[:, 1]
    bounds = grid_arrays.enclosing_bounds(np.column_stack((u, u)), float(v.min()), float(v.max()))
    return Points(x[order], y[order], features.weights[order]), bounds


def write_points(points: Points) -> bytes:
    """Writes the points as an .npz file; the same points make the same bytes in any order."""
    buffer, x, y = io.BytesIO(), points.x.astype(np.uint32), points.y.astype(np.uint32)
    np.savez(buffer, format=np.int64(POINTS_FORMAT), x=x, y=y, weights=points.weights)
    return buffer.getvalue()


def read_points(data: bytes) -> Points:
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        return Points(arrays["x"].astype(np.int64), arrays["y"].astype(np.int64), arrays["weights"])


def wrap_steps(steps: PixelPlaces) -> PixelPlaces:
    """Turns differences of x to the short way round the globe: from -GLOBE_UNITS / 2 to below GLOBE_UNITS / 2."""
    turned: PixelPlaces = (steps + GLOBE_UNITS // 2) % GLOBE_UNITS - GLOBE_UNITS // 2
    return turned


def find_points_near(x: PixelPlaces, y: PixelPlaces, window: Window, reach: int) -> PointsInView:
    """Finds the places within `reach` lattice pixels of a window, once for each turn of the globe that it shows."""
    shift = FINEST_LEVEL - window.level
    rows = (y >> shift) - window.y
    inside = np.flatnonzero((rows >= -reach) & (rows < window.height + reach))
    turns = np.array(window.turns(0.0, 1.0, reach), np.int64)
    columns = (x[inside] >> shift) - window.x + turns[:, None] * window.globe
    turn, place = np.nonzero((columns >= -reach) & (columns < window.width + reach))
    chosen = inside[place]
    return PointsInView(chosen, columns[turn, place], rows[chosen])
