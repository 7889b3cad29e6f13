"""Reads GeoJSON (RFC 7946) of lines, areas and points, and checks it. Does not project or compile anything."""

import json
import math
import re
from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Never, TypeAlias

import numpy as np

from .. import styles
from ..errors import LayerError
from ..grid_arrays import Floats
from .limits import LayerLimits

_LONGITUDE_LATITUDE_CRS = re.compile(
    r"(urn:ogc:def:crs:|https?://www\.opengis\.net/def/crs/)?(OGC[:/][\d.]*[:/])?CRS:?84"
    r"|(urn:ogc:def:crs:|https?://www\.opengis\.net/def/crs/)?EPSG[:/]([\d.]*[:/])?4326",
    re.IGNORECASE,
)


def _parse_document(data: bytes) -> dict[str, Any]:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise LayerError("The file is UTF-16; save it as UTF-8.")
    try:
        document = json.loads(data.decode("utf-8-sig"), parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise LayerError(f"The file is not JSON: byte {error.start} is not UTF-8.") from error
    except RecursionError as error:
        raise LayerError("The file is nested too deeply.") from error
    except json.JSONDecodeError as error:
        raise _json_error(error) from error
    except ValueError as error:  # int() refuses them
        raise LayerError("The file is not JSON that can be read: a number in it has thousands of digits.") from error
    if not isinstance(document, dict) or "type" not in document:
        raise LayerError("The file is JSON but not GeoJSON: it is not an object with a “type”.")
    _check_reference_system(document.get("crs"))
    return document


def _json_error(error: json.JSONDecodeError) -> LayerError:
    if error.msg == "Extra data" and error.doc[error.pos] in "{\x1e":
        return LayerError(
            "The file holds one JSON value after another (NDJSON), not one GeoJSON object. "
            "Put them into a FeatureCollection: ogr2ogr new.geojson old.geojsonl."
        )
    return LayerError(f"The file is not JSON: it is wrong at line {error.lineno}, column {error.colno}.")


def _refuse_constant(name: str) -> Never:
    raise LayerError(f"The file is not JSON: {name} is not a JSON number.")


def _check_reference_system(crs: Any) -> None:
    """Refuses a “crs”, a member of older GeoJSON, other than longitude and latitude."""
    if crs is None:
        return
    properties = crs.get("properties") if isinstance(crs, dict) else None
    name = properties.get("name") if isinstance(properties, dict) else None
    if not isinstance(name, str) or not _LONGITUDE_LATITUDE_CRS.fullmatch(name.strip()):
        raise LayerError(
            f"The file's “crs” is {str(name)[:80]!r}; a layer takes longitude and latitude (WGS 84). "
            "Convert it: ogr2ogr -t_srs EPSG:4326 -lco RFC7946=YES new.geojson old.geojson."
        )


def _raw_features(document: dict[str, Any]) -> list[Any]:
    kind = document["type"]
    if kind == "FeatureCollection":
        features = document.get("features")
        if not isinstance(features, list):
            raise LayerError("The FeatureCollection has no list of “features”.")
        if not features:
            raise LayerError("The FeatureCollection is empty.")
        return features
    if kind == "Feature":
        return [document]
    if isinstance(kind, str) and kind in GEOMETRY_TYPES:
        return [{"type": "Feature", "geometry": document, "properties": {}}]
    hint = " Convert it to GeoJSON first." if kind == "Topology" else ""
    raise LayerError(f"The file is not GeoJSON: its type is {str(kind)[:40]!r}.{hint}")


LayerKind: TypeAlias = Literal["lines", "areas", "points"]
ProgressCallback: TypeAlias = Callable[[int, int], None]

MAX_ID_LENGTH = 200
NO_FEATURES = "The file holds no features with a geometry."
_EARTH_DEGREES = np.array([180.0, 90.0])
_NUMBER_TYPES = (int, float)
_GEOMETRY_TYPES_BY_KIND: dict[LayerKind, tuple[str, ...]] = {
    "lines": ("LineString", "MultiLineString", "Polygon", "MultiPolygon"),
    "areas": ("Polygon", "MultiPolygon"),
    "points": ("Point", "MultiPoint"),
}


@dataclass(frozen=True, slots=True, eq=False)
class FeaturePart:
    """A line, or a ring. `opens_group` is False for a hole: it belongs to the part before it."""

    positions: Floats
    is_ring: bool
    opens_group: bool


@dataclass(frozen=True, slots=True, eq=False)
class LayerFeature:
    """One checked feature. Speeds are km/h, None without data."""

    id: str
    parts: list[FeaturePart]
    speed_kmh: float | None
    free_flow_kmh: float | None


def check_file_size(size_bytes: int, limits: LayerLimits) -> None:
    """Raises LayerError for a file that is too big or empty, before it is read."""
    if size_bytes > limits.max_bytes:
        raise LayerError(
            f"The file is too big: {size_bytes / 1e6:,.0f} MB; at most {limits.max_bytes / 1e6:,.0f} MB are read."
        )
    if size_bytes == 0:
        raise LayerError("The file is empty.")


def read_features(
    data: bytes,
    kind: Literal["lines", "areas"],
    limits: LayerLimits | None = None,
    progress: ProgressCallback | None = None,
) -> list[LayerFeature]:
    """Reads the features of a GeoJSON file. Raises LayerError naming the first wrong feature."""
    features = [named.feature(raw) for named, raw in read_named_features(data, kind, limits or LayerLimits(), progress)]
    if not any(feature.parts for feature in features):
        raise LayerError(NO_FEATURES)
    return features


def read_named_features(
    data: bytes, kind: LayerKind, limits: LayerLimits, progress: ProgressCallback | None
) -> Iterator[tuple["FeatureReader", Mapping[str, Any]]]:
    """Yields each feature of a file with the reader that names it. Does not look at the geometry."""
    check_file_size(len(data), limits)
    every = _raw_features(_parse_document(data))
    numbers_by_id: dict[str, int] = {}
    for number, raw in enumerate(every):
        named = FeatureReader(kind, limits, number).named(raw)
        if named.id in numbers_by_id:
            raise LayerError(f"Features {numbers_by_id[named.id]} and {number} have the same id “{named.id}”.")
        numbers_by_id[named.id] = number
        yield named, raw
        if progress and (number % 1000 == 999 or number + 1 == len(every)):
            progress(number + 1, len(every))


GEOMETRY_TYPES = {"GeometryCollection"}.union(*_GEOMETRY_TYPES_BY_KIND.values())


def _is_geometry(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("type"), str) and value["type"] in GEOMETRY_TYPES


@dataclass(frozen=True, slots=True)
class FeatureReader:
    """Reads and checks one feature, and names it in the messages of its errors."""

    kind: LayerKind
    limits: LayerLimits
    number: int
    id: str = ""

    def wrong(self, message: str) -> LayerError:
        name = f"Feature {self.number}" + (f" (“{self.id}”)" if self.id and self.id != str(self.number) else "")
        return LayerError(f"{name}: {message}")

    def named(self, raw: Any) -> "FeatureReader":
        """Returns the same reader with the feature's id. Raises LayerError when `raw` is no feature."""
        if not isinstance(raw, dict) or raw.get("type") != "Feature":
            raise self.wrong("is not a GeoJSON Feature.")
        properties = raw.get("properties") or {}
        if not isinstance(properties, dict):
            raise self.wrong("its properties are not an object.")
        return FeatureReader(self.kind, self.limits, self.number, self._identity(raw, properties))

    def feature(self, raw: Mapping[str, Any]) -> LayerFeature:
        properties = raw.get("properties") or {}
        return LayerFeature(
            id=self.id,
            parts=list(self._parts(raw.get("geometry"))),
            speed_kmh=self._speed(properties, "speed", zero_is_data=True),
            free_flow_kmh=self._speed(properties, "free_flow", zero_is_data=False),
        )

    def geometries(self, geometry: Any) -> Iterator[Mapping[str, Any]]:
        """Yields the simple geometries of a geometry: of a kind that the layer shows, with coordinates."""
        if geometry is None:  # an unlocated feature, which RFC 7946 allows
            return
        if not _is_geometry(geometry):
            raise self.wrong("its geometry is not a GeoJSON geometry.")
        members = geometry.get("geometries") if geometry["type"] == "GeometryCollection" else [geometry]
        if not isinstance(members, list) or any(
            not _is_geometry(member) or member["type"] == "GeometryCollection" for member in members
        ):
            raise self.wrong("its GeometryCollection does not hold simple geometries.")
        for member in members:
            if member["type"] not in _GEOMETRY_TYPES_BY_KIND[self.kind]:
                raise self.wrong(f"is a {member['type']}; a layer of {self.kind} cannot show it.")
            if not isinstance(member.get("coordinates"), list) or not member["coordinates"]:
                raise self.wrong(f"its {member['type']} has no coordinates.")
            yield member

    def position(self, raw: Any) -> tuple[float, float]:
        """Reads longitude and latitude of a position. Does not check that it is on Earth."""
        if (
            type(raw) is not list
            or len(raw) < 2
            or type(raw[0]) not in _NUMBER_TYPES
            or type(raw[1]) not in _NUMBER_TYPES
        ):
            raise self.wrong(f"{raw!r:.60} is not a position: [longitude, latitude].")
        try:
            return float(raw[0]), float(raw[1])
        except OverflowError as error:  # an integer of hundreds of digits
            raise self.wrong("a position is not on Earth: its number is too large.") from error

    def not_on_earth(self, longitude: float, latitude: float) -> LayerError:
        return self.wrong(
            f"position [{longitude:g}, {latitude:g}] is not on Earth: "
            "longitude within ±180, then latitude within ±90 degrees."
        )

    def _identity(self, raw: Mapping[str, Any], properties: Mapping[str, Any]) -> str:
        given = raw.get("id")
        if given is None:
            given = properties.get("segment_id")
        if given is None:
            return str(self.number)
        if type(given) not in (str, int, float):
            raise self.wrong("its id is neither a string nor a number.")
        identity = str(given).strip()
        if not identity or len(identity) > MAX_ID_LENGTH or not identity.isprintable():
            raise self.wrong(f"its id is not 1 to {MAX_ID_LENGTH} printable characters.")
        return identity

    def _speed(self, properties: Mapping[str, Any], name: str, *, zero_is_data: bool) -> float | None:
        value = properties.get(name)
        if value is None or self.kind != "lines":
            return None
        if type(value) not in (int, float) or not 0 <= value < 10_000 or not (value or zero_is_data):
            raise self.wrong(f"its property {name} is {value!r:.40}, not a speed in km/h.")
        return float(value)

    def _parts(self, geometry: Any) -> Iterator[FeaturePart]:
        for simple in self.geometries(geometry):
            kind, coordinates = simple["type"], simple["coordinates"]
            if kind.endswith("LineString"):
                for line in coordinates if kind == "MultiLineString" else [coordinates]:
                    yield FeaturePart(self._positions(line), is_ring=False, opens_group=True)
            else:
                for polygon in coordinates if kind == "MultiPolygon" else [coordinates]:
                    yield from self._rings(polygon)

    def _rings(self, polygon: Any) -> Iterator[FeaturePart]:
        if not isinstance(polygon, list) or not polygon:
            raise self.wrong("one of its polygons has no rings.")
        for ordinal, ring in enumerate(polygon):
            positions = self._positions(ring)
            if len(positions) < 4 or (positions[0] != positions[-1]).any():
                raise self.wrong("one of its rings is not closed: at least 4 positions, the last like the first.")
            yield FeaturePart(positions, is_ring=True, opens_group=ordinal == 0 or self.kind == "lines")

    def _positions(self, raw: Any) -> Floats:
        if not isinstance(raw, list) or len(raw) < 2:
            raise self.wrong("one of its lines is too short: at least 2 positions.")
        if len(raw) > self.limits.max_positions_per_line:
            raise self.wrong(
                f"a line has {len(raw):,} positions; split it: at most {self.limits.max_positions_per_line:,}."
            )
        positions = np.array([self.position(each) for each in raw], dtype=np.float64)
        on_earth = np.abs(positions) <= _EARTH_DEGREES  # NaN is not on Earth either
        if not on_earth.all():
            raise self.not_on_earth(*positions[on_earth.all(axis=1).argmin()].tolist())
        return positions


@dataclass(frozen=True, slots=True, eq=False)
class PointFeatures:
    """All points of a file: (longitude, latitude) rows in degrees, and the weight of each, not below 0."""

    positions: Floats
    weights: Floats
    features: int


def read_point_features(
    data: bytes, weight: str | None = None, limits: LayerLimits | None = None, progress: ProgressCallback | None = None
) -> PointFeatures:
    """Reads the points of a GeoJSON file. Raises LayerError naming the first wrong feature.

    A point's weight is its property named `weight`, and 1 without it. All points of a MultiPoint
    weigh the same. Naming a property that no feature has is an error.
    """
    name = weight or styles.WEIGHT_PROPERTY
    positions, weights = array("d"), array("d")
    features, weighted = 0, False
    for reading, raw in read_named_features(data, "points", limits or LayerLimits(), progress):
        before = len(positions)
        for place in _point_positions(reading, raw.get("geometry")):
            positions.extend(place)
        properties = raw.get("properties") or {}
        weighted = weighted or properties.get(name) is not None
        weights.extend([_point_weight(reading, properties, name)] * ((len(positions) - before) // 2))
        features += 1
    if not weights:
        raise LayerError(NO_FEATURES)
    if weight is not None and not weighted:
        raise LayerError(f"No feature has the property “{weight}”, which the style names as the weight.")
    return PointFeatures(np.array(positions).reshape(-1, 2), np.array(weights), features)


def _point_positions(reading: FeatureReader, geometry: Any) -> Iterator[tuple[float, float]]:
    for simple in reading.geometries(geometry):
        coordinates = simple["coordinates"]
        for raw in coordinates if simple["type"] == "MultiPoint" else [coordinates]:
            longitude, latitude = reading.position(raw)
            if not (abs(longitude) <= 180 and abs(latitude) <= 90):
                raise reading.not_on_earth(longitude, latitude)
            yield longitude, latitude


def _point_weight(reading: FeatureReader, properties: Mapping[str, Any], name: str) -> float:
    value = properties.get(name)
    if value is None:
        return 1.0
    if type(value) not in (int, float) or not 0 <= value <= 1e300 or math.isnan(value):
        raise reading.wrong(f"its property {name} is {value!r:.40}, not a weight: a finite number, 0 or above.")
    return float(value)
