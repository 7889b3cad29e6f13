"""Reads GeoJSON (RFC 7946) and checks it. PURE; does not project or compile anything."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Never, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .errors import LayerError

Kind: TypeAlias = Literal["lines", "areas"]
Progress: TypeAlias = Callable[[int, int], None]

MAX_ID_LENGTH = 200
_GEOMETRIES = {"Point", "MultiPoint", "LineString", "MultiLineString", "Polygon", "MultiPolygon", "GeometryCollection"}
_LONGITUDE_LATITUDE = re.compile(
    r"(urn:ogc:def:crs:|https?://www\.opengis\.net/def/crs/)?(OGC[:/][\d.]*[:/])?CRS:?84"
    r"|(urn:ogc:def:crs:|https?://www\.opengis\.net/def/crs/)?EPSG[:/]([\d.]*[:/])?4326",
    re.IGNORECASE,
)
_MEMBERS = ("LineString", "MultiLineString", "Polygon", "MultiPolygon")


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a file may hold."""

    max_bytes: int = 100_000_000
    max_positions_per_line: int = 250_000


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A line, or a ring. `opens_group` is False for a hole: it belongs to the part before it."""

    positions: NDArray[np.float64]
    is_ring: bool
    opens_group: bool


@dataclass(frozen=True, slots=True, eq=False)
class Feature:
    """One checked feature. Speeds are km/h, None without data."""

    id: str
    parts: list[Part]
    speed_kmh: float | None
    free_flow_kmh: float | None


def check_size(size_bytes: int, limits: Limits) -> None:
    """Raises LayerError for a file that is too big or empty, before anything of it is read."""
    if size_bytes > limits.max_bytes:
        raise LayerError(
            f"The file is too big: {size_bytes / 1e6:,.0f} MB; at most {limits.max_bytes / 1e6:,.0f} MB are read."
        )
    if size_bytes == 0:
        raise LayerError("The file is empty.")


def read_features(
    data: bytes, kind: Kind, limits: Limits | None = None, progress: Progress | None = None
) -> list[Feature]:
    """The features of a GeoJSON file. Raises LayerError naming the first feature that is wrong."""
    limits = limits or Limits()
    check_size(len(data), limits)
    raw = _raw_features(_document(data))
    features: list[Feature] = []
    numbers_by_id: dict[str, int] = {}
    for number, each in enumerate(raw):
        feature = _Reading(kind, limits, number).feature(each)
        if feature.id in numbers_by_id:
            raise LayerError(f"Features {numbers_by_id[feature.id]} and {number} have the same id “{feature.id}”.")
        numbers_by_id[feature.id] = number
        features.append(feature)
        if progress and (number % 1000 == 999 or number + 1 == len(raw)):
            progress(number + 1, len(raw))
    if not any(feature.parts for feature in features):
        raise LayerError("The file holds no features with a geometry.")
    return features


def _document(data: bytes) -> dict[str, Any]:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise LayerError("The file is UTF-16; save it as UTF-8.")
    try:
        document = json.loads(data.decode("utf-8-sig"), parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise LayerError(f"The file is not JSON: byte {error.start} is not UTF-8.") from error
    except RecursionError as error:
        raise LayerError("The file is nested too deeply.") from error
    except json.JSONDecodeError as error:
        raise _not_json(error) from error
    except ValueError as error:  # int() refuses them
        raise LayerError("The file is not JSON that can be read: a number in it has thousands of digits.") from error
    if not isinstance(document, dict) or "type" not in document:
        raise LayerError("The file is JSON but not GeoJSON: it is not an object with a “type”.")
    _check_reference_system(document.get("crs"))
    return document


def _not_json(error: json.JSONDecodeError) -> LayerError:
    if error.msg == "Extra data" and error.doc[error.pos] in "{\x1e":
        return LayerError(
            "The file holds one JSON value after another (NDJSON), not one GeoJSON object. "
            "Put them into a FeatureCollection: ogr2ogr new.geojson old.geojsonl."
        )
    return LayerError(f"The file is not JSON: it is wrong at line {error.lineno}, column {error.colno}.")


def _refuse_constant(name: str) -> Never:
    raise LayerError(f"The file is not JSON: {name} is not a JSON number.")


def _check_reference_system(crs: Any) -> None:
    """Refuses coordinates other than longitude and latitude, which the member “crs” of older GeoJSON may name."""
    if crs is None:
        return
    properties = crs.get("properties") if isinstance(crs, dict) else None
    name = properties.get("name") if isinstance(properties, dict) else None
    if not isinstance(name, str) or not _LONGITUDE_LATITUDE.fullmatch(name.strip()):
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
    if isinstance(kind, str) and kind in _GEOMETRIES:
        return [{"type": "Feature", "geometry": document, "properties": {}}]
    hint = " Convert it to GeoJSON first." if kind == "Topology" else ""
    raise LayerError(f"The file is not GeoJSON: its type is {str(kind)[:40]!r}.{hint}")


def _is_geometry(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("type"), str) and value["type"] in _GEOMETRIES


@dataclass(frozen=True, slots=True)
class _Reading:
    """The reading of one feature: what its messages need to name it."""

    kind: Kind
    limits: Limits
    number: int
    id: str = ""

    def wrong(self, message: str) -> LayerError:
        name = f"Feature {self.number}" + (f" (“{self.id}”)" if self.id and self.id != str(self.number) else "")
        return LayerError(f"{name}: {message}")

    def feature(self, raw: Any) -> Feature:
        if not isinstance(raw, dict) or raw.get("type") != "Feature":
            raise self.wrong("is not a GeoJSON Feature.")
        properties = raw.get("properties") or {}
        if not isinstance(properties, dict):
            raise self.wrong("its properties are not an object.")
        named = _Reading(self.kind, self.limits, self.number, self._identity(raw, properties))
        return Feature(
            id=named.id,
            parts=list(named._parts(raw.get("geometry"))),
            speed_kmh=named._speed(properties, "speed", zero_is_data=True),
            free_flow_kmh=named._speed(properties, "free_flow", zero_is_data=False),
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

    def _parts(self, geometry: Any) -> Iterator[Part]:
        if geometry is None:  # an unlocated feature, which RFC 7946 allows
            return
        if not _is_geometry(geometry):
            raise self.wrong("its geometry is not a GeoJSON geometry.")
        if geometry["type"] != "GeometryCollection":
            yield from self._simple_parts(geometry)
            return
        members = geometry.get("geometries")
        if not isinstance(members, list) or any(
            not _is_geometry(member) or member["type"] == "GeometryCollection" for member in members
        ):
            raise self.wrong("its GeometryCollection does not hold simple geometries.")
        for member in members:
            yield from self._simple_parts(member)

    def _simple_parts(self, geometry: Mapping[str, Any]) -> Iterator[Part]:
        kind, coordinates = geometry["type"], geometry.get("coordinates")
        if kind not in _MEMBERS or (self.kind == "areas" and not kind.endswith("Polygon")):
            raise self.wrong(f"is a {kind}; a layer of {self.kind} cannot show it.")
        if not isinstance(coordinates, list) or not coordinates:
            raise self.wrong(f"its {kind} has no coordinates.")
        if kind == "LineString":
            yield Part(self._positions(coordinates), is_ring=False, opens_group=True)
        elif kind == "MultiLineString":
            for line in coordinates:
                yield Part(self._positions(line), is_ring=False, opens_group=True)
        else:
            for polygon in coordinates if kind == "MultiPolygon" else [coordinates]:
                yield from self._rings(polygon)

    def _rings(self, polygon: Any) -> Iterator[Part]:
        if not isinstance(polygon, list) or not polygon:
            raise self.wrong("one of its polygons has no rings.")
        for ordinal, ring in enumerate(polygon):
            positions = self._positions(ring)
            if len(positions) < 4 or (positions[0] != positions[-1]).any():
                raise self.wrong("one of its rings is not closed: at least 4 positions, the last like the first.")
            yield Part(positions, is_ring=True, opens_group=ordinal == 0 or self.kind == "lines")

    def _positions(self, raw: Any) -> NDArray[np.float64]:
        if not isinstance(raw, list) or len(raw) < 2:
            raise self.wrong("one of its lines is too short: at least 2 positions.")
        if len(raw) > self.limits.max_positions_per_line:
            raise self.wrong(
                f"a line has {len(raw):,} positions; split it: at most {self.limits.max_positions_per_line:,}."
            )
        positions = np.array([self._position(each) for each in raw], dtype=np.float64)
        outside = (np.abs(positions) > (180.0, 90.0)).any(axis=1) | ~np.isfinite(positions).all(axis=1)
        if outside.any():
            lon, lat = positions[outside.argmax()]
            raise self.wrong(
                f"position [{lon:g}, {lat:g}] is not on Earth: longitude within ±180, then latitude within ±90 degrees."
            )
        return positions

    def _position(self, raw: Any) -> tuple[float, float]:
        if type(raw) is not list or len(raw) < 2 or not all(type(value) in (int, float) for value in raw[:2]):
            raise self.wrong(f"{raw!r:.60} is not a position: [longitude, latitude].")
        try:
            return float(raw[0]), float(raw[1])
        except OverflowError as error:  # an integer of hundreds of digits
            raise self.wrong("a position is not on Earth: its number is too large.") from error
