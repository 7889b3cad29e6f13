"""Compiled geometry: flat arrays in unit mercator, and how they are written and read. PURE."""

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from . import geojson, grid

FORMAT = 1
"""Grows when the arrays change their meaning."""


@dataclass(frozen=True, slots=True, eq=False)
class Geometry:
    """Parts (lines, rings) of groups (a line; a polygon with its holes) of features.

    Part i has the rows `offsets[i]:offsets[i + 1]` of `coordinates`, group i the parts
    `groups[i]:groups[i + 1]`, the first of which is its outer ring.
    """

    coordinates: NDArray[np.float64]
    offsets: NDArray[np.int64]
    rings: NDArray[np.bool_]
    groups: NDArray[np.int64]
    features: NDArray[np.int32]
    bounds: grid.Bounds


def compile_geometry(features: Sequence[geojson.Feature]) -> Geometry:
    """Projects checked features and joins them into arrays. Does not simplify them."""
    parts = [part for feature in features for part in feature.parts]
    owners = [number for number, feature in enumerate(features) for part in feature.parts if part.opens_group]
    opens = np.array([part.opens_group for part in parts], dtype=np.bool_)
    rings = np.array([part.is_ring for part in parts], dtype=np.bool_)
    offsets = np.concatenate(([0], np.cumsum([len(part.positions) for part in parts]))).astype(np.int64)
    positions = np.concatenate([part.positions for part in parts])
    positions[:, 0] = grid.unwrap(positions[:, 0], offsets)
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


def _close_round_poles(
    coordinates: grid.Floats, offsets: NDArray[np.int64], rings: NDArray[np.bool_]
) -> tuple[grid.Floats, NDArray[np.int64]]:
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


def _shift_into_map(coordinates: grid.Floats, offsets: NDArray[np.int64], opens: NDArray[np.bool_]) -> grid.Floats:
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
