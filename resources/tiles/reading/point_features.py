"""Reads the points of a GeoJSON file, and what they weigh. PURE; does not project or compile anything."""

import math
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import Floats
from ..errors import LayerError
from ..styling import point_style
from . import geojson


@dataclass(frozen=True, slots=True, eq=False)
class PointFeatures:
    """All points of a file: (longitude, latitude) rows in degrees, and a weight for each, not below 0."""

    positions: Floats
    weights: Floats
    features: int


def read_points(
    data: bytes,
    weight: str | None = None,
    limits: geojson.Limits | None = None,
    progress: geojson.Progress | None = None,
) -> PointFeatures:
    """The points of a GeoJSON file. Raises LayerError naming the first feature that is wrong.

    A point weighs what the property named `weight` says, and 1 without it. All points of a MultiPoint
    weigh the same. When a property is named that no feature has, that is an error.
    """
    name = weight or point_style.WEIGHT
    positions, weights = array("d"), array("d")
    features, weighted = 0, False
    for reading, raw in geojson.read_each(data, "points", limits or geojson.Limits(), progress):
        before = len(positions)
        for place in _places(reading, raw.get("geometry")):
            positions.extend(place)
        properties = raw.get("properties") or {}
        weighted = weighted or properties.get(name) is not None
        weights.extend([_weight(reading, properties, name)] * ((len(positions) - before) // 2))
        features += 1
    if not weights:
        raise LayerError(geojson.NOTHING)
    if weight is not None and not weighted:
        raise LayerError(f"No feature has the property “{weight}”, which the style names as the weight.")
    return PointFeatures(np.array(positions).reshape(-1, 2), np.array(weights), features)


def _places(reading: geojson.Reading, geometry: Any) -> Iterator[tuple[float, float]]:
    for simple in reading.geometries(geometry):
        coordinates = simple["coordinates"]
        for raw in coordinates if simple["type"] == "MultiPoint" else [coordinates]:
            longitude, latitude = reading.position(raw)
            if not (abs(longitude) <= 180 and abs(latitude) <= 90):
                raise reading.not_on_earth(longitude, latitude)
            yield longitude, latitude


def _weight(reading: geojson.Reading, properties: Mapping[str, Any], name: str) -> float:
    value = properties.get(name)
    if value is None:
        return 1.0
    if type(value) not in (int, float) or not 0 <= value <= 1e300 or math.isnan(value):
        raise reading.wrong(f"its property {name} is {value!r:.40}, not a weight: a finite number, 0 or above.")
    return float(value)
