"""New speeds for some segments of a layer, and putting them over those it has. PURE; stores nothing."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..arrays import Indexes
from . import compiling, geojson, geometry, jsonlines, speeds
from .speeds import Report, Row, Speeds

Form = Literal["csv", "jsonlines"]

READERS: dict[Form, Callable[[bytes, geojson.Limits | None], list[Row]]] = {
    "csv": speeds.read_rows,
    "jsonlines": jsonlines.read_rows,
}


@dataclass(frozen=True, slots=True, eq=False)
class Patch:
    """Speeds of the segments at these places in the order of the layer's features; NaN is no data."""

    segments: int
    places: Indexes
    speeds: Speeds
    report: Report

    def over(self, before: Speeds | None) -> Speeds:
        """The speeds of all segments: these, and elsewhere those from before, or no data."""
        after = Speeds(*(np.full(self.segments, math.nan, np.float32) for _ in range(2)))
        if before is not None:
            after.speed_kmh[:], after.free_flow_kmh[:] = before.speed_kmh, before.free_flow_kmh
        after.speed_kmh[self.places] = self.speeds.speed_kmh
        after.free_flow_kmh[self.places] = self.speeds.free_flow_kmh
        return after


def read_patch(compiled_geometry: bytes, data: bytes, form: Form, limits: geojson.Limits | None = None) -> Patch:
    """The speeds in a file, for the segments of a geometry.

    Raises SpeedsError with the line of the first row that is wrong, or when no row is for a segment of the layer.
    """
    rows = READERS[form](data, limits)
    return patch_of(rows, geometry.read_ids(compiled_geometry), limits.measured_until if limits else None)


def patch_of(rows: Sequence[Row], ids: Sequence[str], until: datetime | None = None) -> Patch:
    """The rows by the places of their segments, but for those measured after `until`. Raises SpeedsError if none is."""
    by_id = {row.segment_id: row for row in speeds.measured_by(rows, until)}
    places = [place for place, identity in enumerate(ids) if identity in by_id]
    found = [by_id[ids[place]] for place in places]
    aligned, _ = speeds.align(found, [row.segment_id for row in found])
    report = speeds.report_of(rows, {row.segment_id for row in found}, until)
    compiling.check_some_taken(report)
    return Patch(len(ids), np.array(places, np.int64), aligned, report)


def changed(before: Speeds | None, after: Speeds) -> int:
    """How many segments have other speeds than before."""
    if before is None:
        return int(np.count_nonzero(~np.isnan(after.speed_kmh) | ~np.isnan(after.free_flow_kmh)))
    same = _same(before.speed_kmh, after.speed_kmh) & _same(before.free_flow_kmh, after.free_flow_kmh)
    return int(np.count_nonzero(~same))


def _same(before: NDArray[np.float32], after: NDArray[np.float32]) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = (before == after) | (np.isnan(before) & np.isnan(after))
    return found
