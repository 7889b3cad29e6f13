"""Compiles the files that people give into what painters load. PURE; stores nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from .. import grid
from ..errors import SpeedsError
from . import geojson, geometry, point_features, points, speeds


@dataclass(frozen=True, slots=True)
class CompiledSpeeds:
    """Speeds aligned with a geometry, as a file, and what became of their rows."""

    data: bytes
    known: int
    report: speeds.Report | None = None
    kept: bool = False
    """Whether they are those the layer had before; the report counts them then."""


@dataclass(frozen=True, slots=True)
class CompiledLayer:
    """Geometry and speeds as files, and what is worth knowing about them."""

    kind: geojson.Kind
    geometry: bytes
    bounds: grid.Bounds
    segments: int
    positions: int
    speeds: CompiledSpeeds
    metatiles: Mapping[int, int] = field(default_factory=dict)
    """The sides of blocks by zoom; without any, tiles are painted one by one."""


def compile_layer(
    kind: geojson.Kind,
    data: bytes,
    speeds_csv: bytes | None = None,
    limits: geojson.Limits | None = None,
    progress: geojson.Progress | None = None,
    *,
    weight: str | None = None,
) -> CompiledLayer:
    """A layer from GeoJSON and, for lines, speeds. Raises LayerError, SpeedsError for the latter.

    `weight` is the property that points are weighed by, where it is another than “weight”.
    """
    if speeds_csv is not None and kind != "lines":
        raise SpeedsError("Only lines have speeds.")
    if kind == "points":
        return _compile_points(point_features.read_points(data, weight, limits, progress))
    features = geojson.read_features(data, kind, limits, progress)
    compiled = geometry.compile_geometry(features)
    ids = [feature.id for feature in features]
    if speeds_csv is None:
        own = speeds.speeds_of(features)
        aligned = CompiledSpeeds(speeds.write_speeds(own), own.known)
    else:
        aligned = align_rows(ids, speeds.read_rows(speeds_csv, limits), limits)
    return CompiledLayer(
        kind=kind,
        geometry=geometry.write_geometry(compiled, ids),
        bounds=compiled.bounds,
        segments=len(features),
        positions=len(compiled.coordinates),
        speeds=aligned,
    )


def _compile_points(read: point_features.PointFeatures) -> CompiledLayer:
    compiled, bounds = points.compile_points(read)
    return CompiledLayer(
        kind="points",
        geometry=points.write_points(compiled),
        bounds=bounds,
        segments=read.features,
        positions=len(compiled.x),
        speeds=CompiledSpeeds(speeds.write_speeds(speeds.speeds_of([])), 0),
    )


def compile_speeds(compiled_geometry: bytes, csv: bytes, limits: geojson.Limits | None = None) -> CompiledSpeeds:
    """Speeds from a CSV, aligned with a geometry that is stored already."""
    return align_rows(geometry.read_ids(compiled_geometry), speeds.read_rows(csv, limits), limits)


def keep_speeds(compiled: CompiledLayer, old_geometry: bytes, old_speeds: bytes, at: datetime | None) -> CompiledLayer:
    """The layer with the speeds of the geometry before it, found by the segments' ids."""
    old = speeds.rows_of(speeds.read_speeds(old_speeds), geometry.read_ids(old_geometry))
    aligned, report = speeds.align(old, geometry.read_ids(compiled.geometry))
    kept = CompiledSpeeds(speeds.write_speeds(aligned), aligned.known, replace(report, measured_at=at), kept=True)
    return replace(compiled, speeds=kept)


def align_rows(ids: list[str], rows: list[speeds.Row], limits: geojson.Limits | None = None) -> CompiledSpeeds:
    """Speeds of a file in the order of the ids. Raises SpeedsError when none of them is the layer's."""
    aligned, report = speeds.align(rows, ids, limits.measured_until if limits else None)
    check_some_taken(report)
    return CompiledSpeeds(speeds.write_speeds(aligned), aligned.known, report)


def check_some_taken(report: speeds.Report) -> None:
    """Raises SpeedsError when no row was for one of the layer's segments, or all of those were refused."""
    if report.taken:
        return
    if report.refused:
        raise SpeedsError(f"Nothing is left of the speeds: {speeds.describe(report)}")
    examples = ", ".join(report.unknown_examples)
    raise SpeedsError(f"None of the {report.rows:,} segment_ids ({examples}) is one of the layer's segments.")


def rows_of(values: Mapping[str, tuple[float, float]]) -> list[speeds.Row]:
    """Rows of (speed, free flow) by segment id, for speeds that come from code and not from a file."""
    return [speeds.Row(identity, speed, free_flow) for identity, (speed, free_flow) in values.items()]
