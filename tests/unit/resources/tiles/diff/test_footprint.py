"""Tiles that new speeds touch, against the pixels: the same layer painted before and after."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from resources.tiles.data import arrays, compiler, speeds
from resources.tiles.data.compiler import CompiledLayer
from resources.tiles.data.speeds import SegmentSpeeds
from resources.tiles.diff import changes, footprint
from resources.tiles.diff.changes import LayerLook
from resources.tiles.render.scene import GeometryIndex, Scene
from resources.tiles.styles import parse_style
from resources.tiles.tile_marks import TouchedTiles
from tests.support import geojson
from tests.support.picture_comparison import different, scenes_of, with_speed

ZOOMS = range(15)
TOWN = compiler.compile_layer("lines", geojson.many_lines(4000))


def marked(layer: CompiledLayer, after: SegmentSpeeds, style: Mapping[str, Any], largest: int = 18) -> TouchedTiles:
    before = speeds.read_speeds(layer.speeds.data)
    found = changes.tiles_changed_by_speeds(layer.geometry, before, after, LayerLook(style, 0, largest))
    assert found is not None
    return found


def painted(layer: CompiledLayer, after: SegmentSpeeds, style: Mapping[str, Any] | None = None) -> list[Scene]:
    """The layer as it is and with other speeds."""
    index = GeometryIndex.build(arrays.read_geometry(layer.geometry))
    return scenes_of(index, style or {}, speeds.read_speeds(layer.speeds.data), after)


@pytest.mark.parametrize(
    ("place", "share"), [(17, 0.1), (1201, 0.9), (2501, 0.3)], ids=["standing", "free again", "heavy"]
)
def test_what_one_segment_marks_misses_nothing_that_looks_different(place: int, share: float) -> None:
    after = with_speed(speeds.read_speeds(TOWN.speeds.data), [place], share)
    found, scenes = marked(TOWN, after, {}), painted(TOWN, after)
    true = [different(scenes, zoom) for zoom in ZOOMS]
    assert [found.tiles(zoom) >= true[zoom] for zoom in ZOOMS] == [True] * len(ZOOMS)
    assert sum(map(len, true)) >= 5


def test_what_many_segments_mark_misses_nothing_that_looks_different() -> None:
    places = list(range(0, 4000, 400))
    after = with_speed(speeds.read_speeds(TOWN.speeds.data), places, 0.1)
    found = marked(TOWN, after, {})
    scenes = painted(TOWN, after)
    for zoom in (2, 5, 8, 10):
        assert found.tiles(zoom) >= different(scenes, zoom)


@pytest.mark.parametrize(
    ("positions", "style"),
    [
        ([[179.9995, -17.0], [-179.9995, -17.0004]], {}),
        ([[13.359375, 52.48], [13.359375, 52.483]], {"widths": {"0": 60}}),
        ([[-0.002, 51.496], [0.0, 51.5], [0.0021, 51.496]], {"widths": {"10": 1, "14": 40, "18": 64}}),
        ([[2.0, 85.049], [2.003, 85.0505]], {}),
    ],
    ids=["over the antimeridian", "wide, along the edge of tiles", "wider deeper down", "at the edge of the map"],
)
def test_a_line_alone_marks_what_its_width_reaches(positions: Any, style: dict[str, Any]) -> None:
    layer = compiler.compile_layer("lines", geojson.collection(geojson.line("a", positions, speed=50, free_flow=50)))
    after = with_speed(speeds.read_speeds(layer.speeds.data), [0], 0.1)
    found, scenes = marked(layer, after, style, 17), painted(layer, after, style)
    for zoom in (0, 1, 5, 9, 12, 14):
        assert found.tiles(zoom) == different(scenes, zoom)
    deeper = different(scenes, 17)
    assert all(found.includes(17, *tile) for tile in deeper)


def test_a_speed_of_the_same_class_marks_nothing() -> None:
    before = speeds.read_speeds(TOWN.speeds.data)
    after = SegmentSpeeds(before.speed_kmh + np.float32(0.0001), before.free_flow_kmh)
    assert not marked(TOWN, after, {})


def test_segments_that_get_speeds_for_the_first_time_were_grey_before() -> None:
    none = np.full(4000, np.nan, np.float32)
    after = with_speed(SegmentSpeeds(none, none.copy()), [5], 0.9)
    found = changes.tiles_changed_by_speeds(TOWN.geometry, None, after, LayerLook({}, 0, 14))
    assert found is not None
    assert found.tiles(14)


def test_more_than_can_be_told_apart_is_all_of_the_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "MAX_CHANGED_FEATURES", 3)
    after = with_speed(speeds.read_speeds(TOWN.speeds.data), [1, 2, 3, 4, 5, 6, 7, 8], 0.1)
    before = speeds.read_speeds(TOWN.speeds.data)
    assert changes.tiles_changed_by_speeds(TOWN.geometry, before, after, LayerLook({}, 0, 9)) is None


def test_lines_that_are_too_long_to_follow_are_told_more_coarsely(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(footprint, "MAX_MEETINGS", 100_000)
    zigzag = [[100.0 if row % 2 else 0.0, row] for row in range(-80, 81)]
    features = [geojson.line(number, zigzag, speed=50, free_flow=50) for number in range(2)]
    compiled = compiler.compile_layer("lines", geojson.collection(*features))
    shapes, style = arrays.read_geometry(compiled.geometry), parse_style("lines", {})
    found = footprint.tiles_of_lines(shapes, np.full(2, True), style, range(19))
    assert found.deepest < footprint.DEEPEST_ZOOM
    assert found.includes(18, *tile_at(shapes, 18))


def tile_at(shapes: arrays.Geometry, zoom: int) -> tuple[int, int]:
    """The tile in the middle of a layer's first edge."""
    column, row = shapes.coordinates[:2].mean(axis=0) * 2**zoom
    return int(column), int(row)
