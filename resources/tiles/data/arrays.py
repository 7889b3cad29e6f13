"""Compiled geometry: flat arrays in unit mercator, and how they are written and read. PURE."""

import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from .. import grid
from ..arrays import Floats, Indexes
from ..errors import LayerError
from . import geojson

FORMAT = 1
"""Grows when the arrays change their meaning."""

MOST_TURNS = 2
"""How far an area may reach, in turns of the globe."""


@dataclass(frozen=True, slots=True, eq=False)
class Geometry:
    """Parts (lines, rings) of groups (a line; a polygon with its holes) of features.

    Part i has the rows `offsets[i]:offsets[i + 1]` of `coordinates`, group i the parts
    `groups[i]:groups[i + 1]`, the first of which is its outer ring.
    """

    coordinates: Floats
    offsets: Indexes
    rings: NDArray[np.bool_]
    groups: Indexes
    features: NDArray[np.int32]
    bounds: grid.Bounds


def compile_geometry(features: Sequence[geojson.Feature]) -> Geometry:
    """Projects checked features and joins them into arrays. Does not simplify them. Raises LayerError."""
    owned = _cut_by_turns([(number, part) for number, feature in enumerate(features) for part in feature.parts])
    parts = [part for _, part in owned]
    owners = [number for number, part in owned if part.opens_group]
    opens = np.array([part.opens_group for part in parts], dtype=np.bool_)
    rings = np.array([part.is_ring for part in parts], dtype=np.bool_)
    positions, offsets = _unwrapped(parts)
    coordinates, offsets = _close_round_poles(grid.project(positions, grid.DRAWN_LATITUDE), offsets, rings)
    spans = _shift_into_map(coordinates, offsets, opens)
    return Geometry(
        coordinates=coordinates,
        offsets=offsets,
        rings=rings,
        groups=np.append(np.flatnonzero(opens), len(parts)).astype(np.int64),
        features=np.array(owners, dtype=np.int32),
        bounds=grid.enclosing(spans, float(coordinates[:, 1].min()), float(coordinates[:, 1].max())),
    )


def _unwrapped(parts: Sequence[geojson.Part]) -> tuple[Floats, Indexes]:
    """All positions, each part's longitudes running on past ±180°, and where each part begins."""
    offsets = np.concatenate(([0], np.cumsum([len(part.positions) for part in parts]))).astype(np.int64)
    positions = np.concatenate([part.positions for part in parts])
    positions[:, 0] = grid.unwrap(positions[:, 0], offsets)
    return positions, offsets


def _cut_by_turns(owned: list[tuple[int, geojson.Part]]) -> list[tuple[int, geojson.Part]]:
    """The parts with their features' numbers; lines that go round the globe, as orbits do, in pieces of a turn.

    Painting looks at each part once for every turn that any of them reaches.
    """
    positions, offsets = _unwrapped([part for _, part in owned])
    longitudes, starts = positions[:, 0], offsets[:-1]
    spans = np.maximum.reduceat(longitudes, starts) - np.minimum.reduceat(longitudes, starts)
    cut = list(owned)
    for place in np.flatnonzero(spans > 360.0)[::-1].tolist():
        number, part = owned[place]
        if not part.is_ring:
            pieces = _pieces(part, longitudes[offsets[place] : offsets[place + 1]])
            cut[place : place + 1] = [(number, piece) for piece in pieces]
        elif spans[place] > 360.0 * MOST_TURNS:
            raise LayerError(f"Feature {number + 1}: an area goes round the globe {spans[place] / 360.0:.0f} times.")
    return cut


def _pieces(line: geojson.Part, longitudes: Floats) -> Iterator[geojson.Part]:
    """A line's pieces, each beginning with the position that ends the one before."""
    turns = np.floor((longitudes - longitudes[0]) / 360.0)
    ends = [0, *(np.flatnonzero(np.diff(turns)) + 1).tolist(), len(longitudes) - 1]
    for first, last in pairwise(ends):
        if last > first:
            yield replace(line, positions=line.positions[first : last + 1])


def _close_round_poles(coordinates: Floats, offsets: Indexes, rings: NDArray[np.bool_]) -> tuple[Floats, Indexes]:
    """Closes rings that go round a pole beyond the map's edge, for they end a whole turn away."""
    ends = offsets[1:]
    round_pole = rings & (np.abs(coordinates[ends - 1, 0] - coordinates[offsets[:-1], 0]) > 0.5)
    lengths = np.diff(offsets)
    for part in np.flatnonzero(round_pole)[::-1]:  # from the end, so that earlier offsets stay right
        first, last = coordinates[offsets[part]], coordinates[ends[part] - 1]
        beyond = 2.0 if coordinates[offsets[part] : ends[part], 1].mean() > 0.5 else -1.0  # see strokes.POLE
        pole = [[last[0], beyond], [first[0], beyond], first.tolist()]
        coordinates = np.insert(coordinates, ends[part], pole, axis=0)
        lengths[part] += len(pole)
    return coordinates, np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)


def _shift_into_map(coordinates: Floats, offsets: Indexes, opens: NDArray[np.bool_]) -> Floats:
    """Moves each group by whole turns until it starts within the map. Answers each part's (u0, u1)."""
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
    """The geometry as an .npz file; equal geometries make equal bytes."""
    buffer = io.BytesIO()
    np.savez(
        buffer,
        format=np.int64(FORMAT),
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
    """The geometry of an .npz file. Does not read the segments' ids."""
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        return Geometry(
            coordinates=arrays["coordinates"],
            offsets=arrays["offsets"],
            rings=arrays["rings"],
            groups=arrays["groups"],
            features=arrays["features"],
            bounds=grid.Bounds(*arrays["bounds"].tolist()),
        )


def read_ids(data: bytes) -> list[str]:
    """The segments' ids, in the order of the features, of a geometry's .npz file."""
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        ids: list[str] = json.loads(arrays["ids"].tobytes())
        return ids
