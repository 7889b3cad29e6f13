"""Reads GeoJSON (RFC 7946) and checks it. PURE; does not project or compile anything."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias

import numpy as np

from ..arrays import Floats
from ..errors import LayerError
from . import documents

Kind: TypeAlias = Literal["lines", "areas", "points"]
Progress: TypeAlias = Callable[[int, int], None]

MAX_ID_LENGTH = 200
NOTHING = "The file holds no features with a geometry."
_EARTH = np.array([180.0, 90.0])
_NUMBERS = (int, float)
_MEMBERS: dict[Kind, tuple[str, ...]] = {
    "lines": ("LineString", "MultiLineString", "Polygon", "MultiPolygon"),
    "areas": ("Polygon", "MultiPolygon"),
    "points": ("Point", "MultiPoint"),
}


@dataclass(frozen=True, slots=True)
class Limits:
    """What a file may hold."""

    max_bytes: int = 100_000_000
    max_positions_per_line: int = 250_000
    measured_until: datetime | None = None
    """Speeds that were measured later are refused: some clock is wrong. None: whatever the time is."""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A line, or a ring. `opens_group` is False for a hole: it belongs to the part before it."""

    positions: Floats
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
    data: bytes, kind: Literal["lines", "areas"], limits: Limits | None = None, progress: Progress | None = None
) -> list[Feature]:
    """The features of a GeoJSON file. Raises LayerError naming the first feature that is wrong."""
    features = [named.feature(raw) for named, raw in read_each(data, kind, limits or Limits(), progress)]
    if not any(feature.parts for feature in features):
        raise LayerError(NOTHING)
    return features


def read_each(
    data: bytes, kind: Kind, limits: Limits, progress: Progress | None
) -> Iterator[tuple["Reading", Mapping[str, Any]]]:
    """Each feature that a file holds, with the reading that names it. Looks at no geometry yet."""
    check_size(len(data), limits)
    every = documents.read_raw_features(data)
    numbers_by_id: dict[str, int] = {}
    for number, raw in enumerate(every):
        named = Reading(kind, limits, number).named(raw)
        if named.id in numbers_by_id:
            raise LayerError(f"Features {numbers_by_id[named.id]} and {number} have the same id “{named.id}”.")
        numbers_by_id[named.id] = number
        yield named, raw
        if progress and (number % 1000 == 999 or number + 1 == len(every)):
            progress(number + 1, len(every))


def _is_geometry(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("type"), str) and value["type"] in documents.GEOMETRIES


@dataclass(frozen=True, slots=True)
class Reading:
    """The reading of one feature: what its messages need to name it."""

    kind: Kind
    limits: Limits
    number: int
    id: str = ""

    def wrong(self, message: str) -> LayerError:
        name = f"Feature {self.number}" + (f" (“{self.id}”)" if self.id and self.id != str(self.number) else "")
        return LayerError(f"{name}: {message}")

    def named(self, raw: Any) -> "Reading":
        """The same reading with the feature's id. Raises LayerError when it is no feature."""
        if not isinstance(raw, dict) or raw.get("type") != "Feature":
            raise self.wrong("is not a GeoJSON Feature.")
        properties = raw.get("properties") or {}
        if not isinstance(properties, dict):
            raise self.wrong("its properties are not an object.")
        return Reading(self.kind, self.limits, self.number, self._identity(raw, properties))

    def feature(self, raw: Mapping[str, Any]) -> Feature:
        properties = raw.get("properties") or {}
        return Feature(
            id=self.id,
            parts=list(self._parts(raw.get("geometry"))),
            speed_kmh=self._speed(properties, "speed", zero_is_data=True),
            free_flow_kmh=self._speed(properties, "free_flow", zero_is_data=False),
        )

    def geometries(self, geometry: Any) -> Iterator[Mapping[str, Any]]:
        """The simple geometries that a geometry holds: of a kind that the layer shows, with coordinates."""
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
            if member["type"] not in _MEMBERS[self.kind]:
                raise self.wrong(f"is a {member['type']}; a layer of {self.kind} cannot show it.")
            if not isinstance(member.get("coordinates"), list) or not member["coordinates"]:
                raise self.wrong(f"its {member['type']} has no coordinates.")
            yield member

    def position(self, raw: Any) -> tuple[float, float]:
        """Longitude and latitude of a position, not yet compared with the Earth's."""
        if type(raw) is not list or len(raw) < 2 or type(raw[0]) not in _NUMBERS or type(raw[1]) not in _NUMBERS:
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

    def _parts(self, geometry: Any) -> Iterator[Part]:
        for simple in self.geometries(geometry):
            kind, coordinates = simple["type"], simple["coordinates"]
            if kind.endswith("LineString"):
                for line in coordinates if kind == "MultiLineString" else [coordinates]:
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

    def _positions(self, raw: Any) -> Floats:
        if not isinstance(raw, list) or len(raw) < 2:
            raise self.wrong("one of its lines is too short: at least 2 positions.")
        if len(raw) > self.limits.max_positions_per_line:
            raise self.wrong(
                f"a line has {len(raw):,} positions; split it: at most {self.limits.max_positions_per_line:,}."
            )
        positions = np.array([self.position(each) for each in raw], dtype=np.float64)
        on_earth = np.abs(positions) <= _EARTH  # nor is what is no number
        if not on_earth.all():
            raise self.not_on_earth(*positions[on_earth.all(axis=1).argmin()].tolist())
        return positions
