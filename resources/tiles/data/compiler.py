"""Compiles uploaded files into the arrays that painters load, and patches the speeds of a layer."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal

import numpy as np

from .. import grid
from ..errors import SpeedsError
from ..grid_arrays import Indexes
from . import arrays, geojson, speeds
from .limits import LayerLimits
from .speeds import SegmentSpeeds, SpeedsReport


@dataclass(frozen=True, slots=True)
class CompiledSpeeds:
    """Speeds aligned with a geometry, as a file, and the report on their rows."""

    data: bytes
    known: int
    report: SpeedsReport | None = None
    kept: bool = False
    """True if they are the layer's former speeds; the report then counts them."""


@dataclass(frozen=True, slots=True)
class CompiledLayer:
    """Geometry and speeds as files, with their bounds and counts."""

    kind: geojson.LayerKind
    geometry: bytes
    bounds: grid.Bounds
    segments: int
    positions: int
    speeds: CompiledSpeeds
    metatiles: Mapping[int, int] = field(default_factory=dict)
    """The sides of metatiles by zoom; without any, tiles are painted one by one."""


def compile_layer(
    kind: geojson.LayerKind,
    data: bytes,
    speeds_csv: bytes | None = None,
    limits: LayerLimits | None = None,
    progress: geojson.ProgressCallback | None = None,
    *,
    weight: str | None = None,
) -> CompiledLayer:
    """Compiles a layer from GeoJSON and, for lines, speeds. Raises LayerError, SpeedsError for the speeds.

    `weight` is the property that points are weighed by, if it is not “weight”.
    """
    if speeds_csv is not None and kind != "lines":
        raise SpeedsError("Only lines have speeds.")
    if kind == "points":
        return _compile_points(geojson.read_point_features(data, weight, limits, progress))
    features = geojson.read_features(data, kind, limits, progress)
    compiled = arrays.compile_geometry(features)
    ids = [feature.id for feature in features]
    if speeds_csv is None:
        own = speeds.feature_speeds(features)
        aligned = CompiledSpeeds(speeds.write_speeds(own), own.known)
    else:
        aligned = _compile_csv(ids, speeds_csv, limits)
    return CompiledLayer(
        kind=kind,
        geometry=arrays.write_geometry(compiled, ids),
        bounds=compiled.bounds,
        segments=len(features),
        positions=len(compiled.coordinates),
        speeds=aligned,
    )


def _compile_points(read: geojson.PointFeatures) -> CompiledLayer:
    compiled, bounds = arrays.compile_points(read)
    return CompiledLayer(
        kind="points",
        geometry=arrays.write_points(compiled),
        bounds=bounds,
        segments=read.features,
        positions=len(compiled.x),
        speeds=CompiledSpeeds(speeds.write_speeds(speeds.feature_speeds([])), 0),
    )


def compile_speeds(compiled_geometry: bytes, csv: bytes, limits: LayerLimits | None = None) -> CompiledSpeeds:
    """Compiles speeds from a CSV, aligned with a stored geometry. Raises SpeedsError when no row is for the layer."""
    return _compile_csv(arrays.read_segment_ids(compiled_geometry), csv, limits)


def keep_old_speeds(
    compiled: CompiledLayer, old_geometry: bytes, old_speeds: bytes, at: datetime | None
) -> CompiledLayer:
    """Returns the layer with the speeds of the geometry before it, found by the segments' ids."""
    old = speeds.speeds_to_rows(speeds.read_speeds(old_speeds), arrays.read_segment_ids(old_geometry))
    aligned, report = speeds.align_speeds(old, arrays.read_segment_ids(compiled.geometry))
    kept = CompiledSpeeds(speeds.write_speeds(aligned), aligned.known, replace(report, measured_at=at), kept=True)
    return replace(compiled, speeds=kept)


def _compile_csv(ids: list[str], csv: bytes, limits: LayerLimits | None) -> CompiledSpeeds:
    rows = speeds.read_csv_rows(csv, limits)
    aligned, report = speeds.align_speeds(rows, ids, limits.measured_until if limits else None)
    _check_rows_taken(report)
    return CompiledSpeeds(speeds.write_speeds(aligned), aligned.known, report)


def _check_rows_taken(report: SpeedsReport) -> None:
    """Raises SpeedsError when no row was for a segment of the layer, or all such rows were refused."""
    if report.taken:
        return
    if report.refused:
        raise SpeedsError(f"Nothing is left of the speeds: {speeds.describe_report(report)}")
    examples = ", ".join(report.unknown_examples)
    raise SpeedsError(f"None of the {report.rows:,} segment_ids ({examples}) is one of the layer's segments.")


SpeedsFormat = Literal["csv", "jsonlines"]


@dataclass(frozen=True, slots=True, eq=False)
class SpeedsPatch:
    """Speeds of the segments at these places among the layer's features; NaN is no data."""

    segments: int
    places: Indexes
    speeds: SegmentSpeeds
    report: SpeedsReport

    def over(self, before: SegmentSpeeds | None) -> SegmentSpeeds:
        """Returns the speeds of all segments: these, and elsewhere those from before, or no data."""
        after = SegmentSpeeds(*(np.full(self.segments, math.nan, np.float32) for _ in range(2)))
        if before is not None:
            after.speed_kmh[:], after.free_flow_kmh[:] = before.speed_kmh, before.free_flow_kmh
        after.speed_kmh[self.places] = self.speeds.speed_kmh
        after.free_flow_kmh[self.places] = self.speeds.free_flow_kmh
        return after


def read_patch(
    compiled_geometry: bytes, data: bytes, form: SpeedsFormat, limits: LayerLimits | None = None
) -> SpeedsPatch:
    """Reads the speeds in a file, for the segments of a geometry; leaves out rows measured in the future.

    Raises SpeedsError with the line of the first wrong row, or when no row is for a segment of the layer.
    """
    rows = (speeds.read_csv_rows if form == "csv" else speeds.read_json_rows)(data, limits)
    ids, until = arrays.read_segment_ids(compiled_geometry), limits.measured_until if limits else None
    by_id = {row.segment_id: row for row in speeds.drop_later_rows(rows, until)}
    places = [place for place, identity in enumerate(ids) if identity in by_id]
    found = [by_id[ids[place]] for place in places]
    aligned, _ = speeds.align_speeds(found, [row.segment_id for row in found])
    report = speeds.build_report(rows, {row.segment_id for row in found}, until)
    _check_rows_taken(report)
    return SpeedsPatch(len(ids), np.array(places, np.int64), aligned, report)


def count_changed(before: SegmentSpeeds | None, after: SegmentSpeeds) -> int:
    if before is None:
        return int(np.count_nonzero(~np.isnan(after.speed_kmh) | ~np.isnan(after.free_flow_kmh)))
    pairs = (before.speed_kmh, after.speed_kmh), (before.free_flow_kmh, after.free_flow_kmh)
    same = [np.isclose(*pair, rtol=0, atol=0, equal_nan=True) for pair in pairs]
    return int(np.count_nonzero(~(same[0] & same[1])))
