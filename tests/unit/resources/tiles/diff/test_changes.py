"""Tiles that another geometry touches, against the pixels: both painted, and compared."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from resources.tiles.data import compiler
from resources.tiles.data.geojson import LayerKind
from resources.tiles.diff import changes
from resources.tiles.diff.changes import LayerData, LayerLook
from resources.tiles.render import painter
from resources.tiles.render.painter import AnyScene
from resources.tiles.window import LATTICE_PIXELS, Window
from tests.support import geojson

Features = list[dict[str, Any]]
FAR = 120
HERE = geojson.square(-0.01, 51.49, 0.01, 51.51)
LINES = [geojson.line(n, [[-0.02, 51.49 + n / 500], [0.02, 51.49 + n / 500]], speed=50, free_flow=50) for n in range(5)]
AREAS = [
    geojson.area("here", HERE, geojson.square(-0.005, 51.495, 0.005, 51.505)),
    geojson.area("there", geojson.square(0.03, 51.49, 0.05, 51.51)),
]
POINTS = [
    geojson.point(n, [x, y], weight=weight)
    for n, (x, y, weight) in enumerate(
        np.random.default_rng(4).uniform([-0.03, 51.48, 1], [0.03, 51.52, 5], (60, 3)).round(4).tolist()
    )
]


def data_of(kind: LayerKind, features: Features) -> LayerData:
    compiled = compiler.compile_layer(kind, geojson.collection(*features))
    return LayerData(compiled.geometry, compiled.speeds.data)


def scene_of(kind: LayerKind, data: LayerData, style: Mapping[str, Any]) -> AnyScene:
    return painter.build_scene(kind, painter.read_ground(kind, data.geometry), data.speeds, style)


def different(scenes: list[AnyScene], zoom: int) -> set[tuple[int, int]]:
    """The tiles of a zoom whose pixels differ at scale 1."""
    corners = np.concatenate([scene.positions() for scene in scenes]) * (LATTICE_PIXELS << zoom)
    west, north = (np.floor(corners.min(axis=0)).astype(int) - FAR).tolist()
    east, south = (np.ceil(corners.max(axis=0)).astype(int) + FAR).tolist()
    window = Window(zoom, west, north, east - west, south - north)
    drawn = [painter.draw_window(scene, window, zoom, 1) for scene in scenes]
    before, after = (np.zeros((window.height, window.width)) if one is None else np.asarray(one) for one in drawn)
    rows, columns = np.nonzero(before != after)
    size = LATTICE_PIXELS
    return set(zip(((columns + west) // size % 2**zoom).tolist(), ((rows + north) // size).tolist(), strict=True))


def moved(features: Features, number: int, east: float) -> Features:
    """The features, with one of them elsewhere."""
    changed = [dict(feature) for feature in features]
    shape = changed[number]["geometry"]
    changed[number]["geometry"] = {**shape, "coordinates": _moved(shape["coordinates"], east)}
    return changed


def _moved(coordinates: Any, east: float) -> Any:
    if isinstance(coordinates[0], float | int):
        return [coordinates[0] + east, coordinates[1]]
    return [_moved(each, east) for each in coordinates]


CASES: dict[str, tuple[LayerKind, Features, Features, dict[str, Any]]] = {
    "a line moved": ("lines", LINES, moved(LINES, 2, 0.01), {}),
    "a line gone": ("lines", LINES, LINES[:-1], {}),
    "a line of another class": ("lines", LINES, [*LINES[:4], geojson.line(4, [[-0.02, 51.498], [0.02, 51.498]])], {}),
    "an area moved": ("areas", AREAS, moved(AREAS, 1, 0.008), {}),
    "an area came": ("areas", AREAS[:1], AREAS, {}),
    "a hole filled": ("areas", AREAS, [geojson.area("here", HERE), AREAS[1]], {}),
    "a dot moved": ("points", POINTS, moved(POINTS, 7, 0.004), {"mode": "dots", "radius": [3, 12], "weight": "weight"}),
    "a dot gone": ("points", POINTS, POINTS[1:], {"mode": "dots"}),
    "a clustered point gone": ("points", POINTS, POINTS[1:], {"mode": "clusters"}),
    "a warm place moved": ("points", POINTS, moved(POINTS, 9, 0.01), {"mode": "heat"}),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_another_geometry_marks_visible_changes(case: tuple[LayerKind, Features, Features, dict[str, Any]]) -> None:
    kind, before, after, style = case
    old, new = data_of(kind, before), data_of(kind, after)
    found = changes.tiles_changed_by_data(kind, old, new, LayerLook(style, 0, 18))
    assert found is not None
    scenes = [scene_of(kind, data, style) for data in (old, new)]
    true = {zoom: different(scenes, zoom) for zoom in (1, 6, 10, 13, 14)}
    assert sum(map(len, true.values()))
    for zoom, tiles in true.items():
        assert found.tiles(zoom) >= tiles
    seen = [zoom for zoom, tiles in true.items() if tiles]  # elsewhere others are drawn over it
    assert sum(len(found.tiles(zoom)) for zoom in seen) <= 2 * sum(len(true[zoom]) for zoom in seen)


@pytest.mark.parametrize(("kind", "features"), [("lines", LINES), ("areas", AREAS), ("points", POINTS)])
def test_the_same_data_in_another_order_mark_nothing(kind: LayerKind, features: Features) -> None:
    found = changes.tiles_changed_by_data(
        kind, data_of(kind, features), data_of(kind, features[::-1]), LayerLook({}, 0, 18)
    )
    assert found is not None
    assert not found


def test_the_inside_of_a_large_area_is_told_more_coarsely() -> None:
    large = [geojson.area("large", geojson.square(-60, -60, 60, 60))]
    found = changes.tiles_changed_by_data(
        "areas", data_of("areas", AREAS), data_of("areas", large), LayerLook({}, 0, 18)
    )
    assert found is not None
    assert found.deepest < 16
    assert found.includes(18, 2**17, 2**17)


def test_more_features_than_can_be_told_apart_are_all_of_the_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "MAX_CHANGED_FEATURES", 1)
    old, new = data_of("lines", LINES), data_of("lines", moved(LINES, 1, 0.01))
    assert changes.tiles_changed_by_data("lines", old, new, LayerLook({}, 0, 18)) is None
