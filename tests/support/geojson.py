"""Small layers for tests: GeoJSON in the shapes people give, and scenes made of it."""

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from resources.tiles import styles
from resources.tiles.data import arrays, geojson, speeds
from resources.tiles.render import painter, scene

Line = Sequence[Sequence[float]]


def line(identity: str | int | None, positions: Any, **properties: Any) -> dict[str, Any]:
    feature: dict[str, Any] = {
        "type": "Feature",
        "properties": properties,
        "geometry": {"type": "LineString", "coordinates": positions},
    }
    return feature if identity is None else {**feature, "id": identity}


def area(identity: str | int, *rings: Line) -> dict[str, Any]:
    return {"type": "Feature", "id": identity, "properties": {}, "geometry": {"type": "Polygon", "coordinates": rings}}


def collection(*features: Mapping[str, Any]) -> bytes:
    return json.dumps({"type": "FeatureCollection", "features": features}).encode()


def square(west: float, south: float, east: float, north: float) -> list[list[float]]:
    return [[west, south], [east, south], [east, north], [west, north], [west, south]]


def scene_of(kind: Literal["lines", "areas"], data: bytes, layer_style: Mapping[str, Any] | None = None) -> scene.Scene:
    features = geojson.read_features(data, kind)
    index = scene.GeometryIndex.build(arrays.compile_geometry(features))
    return scene.compose_scene(
        kind, index, speeds.feature_speeds(features), styles.parse_style(kind, layer_style or {})
    )


def many_lines(count: int, seed: int = 1) -> bytes:
    """Short wandering lines around London with all speeds, and some without."""
    random = np.random.default_rng(seed)
    starts = random.normal([0, 51.5], [0.35, 0.22], (count, 1, 2))
    positions = (starts + np.cumsum(random.normal(0, 0.0025, (count, 5, 2)), axis=1)).round(6)
    found = random.uniform(0, 60, count).round(1)
    return collection(
        *(
            line(number, points, **({"speed": speed, "free_flow": 50} if number % 7 else {}))
            for number, (points, speed) in enumerate(zip(positions.tolist(), found.tolist(), strict=True))
        )
    )


def pixels(image: bytes) -> NDArray[np.uint8]:
    """An image file's pixels as (row, column, RGBA)."""
    return np.asarray(Image.open(io.BytesIO(image)).convert("RGBA"))


def point(identity: str | int | None, position: Any, **properties: Any) -> dict[str, Any]:
    feature = {"type": "Feature", "properties": properties, "geometry": {"type": "Point", "coordinates": position}}
    return feature if identity is None else {**feature, "id": identity}


def points_of(data: bytes, weight: str | None = None) -> arrays.Points:
    return arrays.compile_points(geojson.read_point_features(data, weight))[0]


def point_scene_of(data: bytes, layer_style: Mapping[str, Any] | None = None) -> painter.PointScene:
    parsed = styles.parse_style("points", layer_style or {})
    return painter.PointScene.of(points_of(data, parsed.weight), parsed)


def many_points(count: int, seed: int = 1) -> bytes:
    """Points around London in a hundred heaps, and one in ten anywhere on Earth, with weights."""
    random = np.random.default_rng(seed)
    heaps = random.normal([0, 51.5], [2.0, 1.5], (100, 2))[random.integers(0, 100, count)]
    positions = heaps + random.normal(0, 0.1, (count, 2))
    positions[::10] = random.uniform([-180, -88], [180, 88], positions[::10].shape)
    weights = random.exponential(2.0, count).round(2).tolist()
    return collection(
        *(
            point(number, position, weight=weight)
            for number, (position, weight) in enumerate(zip(positions.round(5).tolist(), weights, strict=True))
        )
    )
