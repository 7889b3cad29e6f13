"""Finds the tiles that look different with other speeds or another geometry.

Features are compared by their ids: new and missing ones count, and those of another shape or class. A changed
feature under others counts, too: its tiles are painted again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray

from .. import styles
from ..data import arrays, geojson, speeds
from ..data.arrays import Geometry
from ..data.speeds import SegmentSpeeds
from ..styles import PointStyle, Style, parse_style
from ..tile_marks import TouchedTiles, join_touched
from . import footprint

MAX_CHANGED_FEATURES = 20_000
"""Features whose class changes. With more, nearly every tile is touched: all of the layer counts as changed."""

DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True)
class LayerLook:
    """The look of a layer: its style and its range of zooms."""

    style: Mapping[str, Any]
    min_zoom: int
    max_zoom: int


def tiles_changed_by_speeds(
    compiled_geometry: bytes, before: SegmentSpeeds | None, after: SegmentSpeeds, look: LayerLook
) -> TouchedTiles | None:
    """Returns the tiles that new speeds touch; None for all. Without speeds before, all lines were grey."""
    style = parse_style("lines", look.style)
    new = speeds.classify_speeds(after.speed_kmh, after.free_flow_kmh, style.thresholds)
    old = np.full_like(new, styles.GREY)
    if before is not None:
        old = speeds.classify_speeds(before.speed_kmh, before.free_flow_kmh, style.thresholds)
    changed = old != new
    if np.count_nonzero(changed) > MAX_CHANGED_FEATURES:
        return None
    if not changed.any():
        return TouchedTiles.nothing(min(look.max_zoom, footprint.DEEPEST_ZOOM))
    shapes = arrays.read_geometry(compiled_geometry)
    return footprint.tiles_of_lines(shapes, changed, style, range(look.min_zoom, look.max_zoom + 1))


@dataclass(frozen=True, slots=True)
class LayerData:
    """A layer's files."""

    geometry: bytes
    speeds: bytes


def tiles_changed_by_data(
    kind: geojson.LayerKind, old: LayerData, new: LayerData, look: LayerLook
) -> TouchedTiles | None:
    """Returns the tiles that other data of the same kind and style touch; None for all."""
    style, zooms = parse_style(kind, look.style), range(look.min_zoom, look.max_zoom + 1)
    if isinstance(style, PointStyle):
        return footprint.tiles_of_changed_points(
            arrays.read_points(old.geometry), arrays.read_points(new.geometry), style, zooms
        )
    shapes = [arrays.read_geometry(data.geometry) for data in (old, new)]
    digests = [_digest_features(data, shape, kind, style) for data, shape in zip((old, new), shapes, strict=True)]
    changed = [_missing_from(mine, others) for mine, others in (digests, digests[::-1])]
    if sum(map(np.count_nonzero, changed)) > MAX_CHANGED_FEATURES:
        return None
    each = [footprint.tiles_of_lines(shape, which, style, zooms) for shape, which in zip(shapes, changed, strict=True)]
    if kind == "areas":
        try:
            areas = [footprint.feature_polygons(shape, which) for shape, which in zip(shapes, changed, strict=True)]
            inside_one = shapely.symmetric_difference(*map(shapely.union_all, areas))
            each.append(footprint.tiles_of_region(inside_one, zooms))
        except shapely.errors.GEOSException:  # it cannot mend all shapes that cross themselves
            return None
    return join_touched(each)


def _digest_features(data: LayerData, shape: Geometry, kind: geojson.LayerKind, style: Style) -> dict[str, bytes]:
    """Returns, by the features' ids, digests of everything that their look depends on."""
    ids = arrays.read_segment_ids(data.geometry)
    classes = _feature_classes(data, kind, style, len(ids))
    groups = np.searchsorted(shape.features, np.arange(len(ids) + 1))
    parts = shape.groups[groups]
    return {
        identity: _digest_feature(shape, int(parts[place]), int(parts[place + 1]), int(classes[place]))
        for place, identity in enumerate(ids)
    }


def _feature_classes(data: LayerData, kind: geojson.LayerKind, style: Style, count: int) -> NDArray[np.uint8]:
    if kind == "areas":
        return np.full(count, styles.DOT_FILL, np.uint8)
    known = speeds.read_speeds(data.speeds)
    return speeds.classify_speeds(known.speed_kmh, known.free_flow_kmh, style.thresholds)


def _digest_feature(shape: Geometry, first: int, last: int, colour: int) -> bytes:
    """Digests a feature's parts from `first` to before `last`: coordinates, rings and polygons."""
    digest = blake2b(bytes([colour]), digest_size=DIGEST_BYTES)
    offsets = shape.offsets[first : last + 1]
    digest.update((offsets - offsets[0]).tobytes())
    digest.update(shape.rings[first:last].tobytes())
    digest.update(np.isin(np.arange(first, last), shape.groups).tobytes() if last - first > 1 else b"")
    digest.update(shape.coordinates[offsets[0] : offsets[-1]].tobytes())
    return digest.digest()


def _missing_from(mine: dict[str, bytes], others: dict[str, bytes]) -> NDArray[np.bool_]:
    """Tells for each feature of one side, in order, whether the other side lacks it."""
    return np.array([others.get(identity) != digest for identity, digest in mine.items()], np.bool_)
