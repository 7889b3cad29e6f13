"""Geometry of layers as arrays: points, lines and areas, read, checked and written."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.tiles.data import arrays, compiler, geojson
from resources.tiles.data.geojson import LayerKind
from resources.tiles.errors import LayerError
from resources.tiles.window import Window
from tests.support import geojson as support_geojson
from tests.support.geojson import area, collection, line, point, square

LONDON = [-0.1, 51.5]


def several(identity: int, positions: Any, **properties: Any) -> dict[str, Any]:
    feature = point(identity, positions, **properties)
    feature["geometry"]["type"] = "MultiPoint"
    return feature


BAD: dict[str, tuple[bytes, str]] = {
    "lines among points": (
        collection(point(1, LONDON), line("x", [[0, 1], [1, 2]])),
        "Feature 1 (“x”): is a LineString; a layer of points cannot show it.",
    ),
    "areas": (collection(area(1, support_geojson.square(0, 0, 1, 1))), "is a Polygon; a layer of points"),
    "no coordinates": (collection(point(1, [])), "its Point has no coordinates"),
    "a MultiPoint of none": (collection(several(1, [])), "its MultiPoint has no coordinates"),
    "one number": (collection(point(1, [5])), "is not a position"),
    "numbers as text": (collection(point(1, ["5", "6"])), "is not a position"),
    "a MultiPoint that is a point": (collection(several(1, LONDON)), "is not a position"),
    "latitude before longitude": (collection(point(1, [35.6, 139.7])), "not on Earth"),
    "an endless number": (b'{"type":"Point","coordinates":[1e999,0]}', "not on Earth"),
    "a negative weight": (collection(point(1, LONDON, weight=-1)), "property weight is -1, not a weight"),
    "a weight that is text": (collection(point(1, LONDON, weight="3")), "property weight is '3', not a weight"),
    "a weight that is a truth": (collection(point(1, LONDON, weight=True)), "property weight is True"),
    "an endless weight": (collection(point(1, LONDON)).replace(b"{}", b'{"weight": 1e999}'), "a finite number"),
}


@pytest.mark.parametrize(("data", "message"), BAD.values(), ids=BAD.keys())
def test_bad_files_are_refused_with_a_reason(data: bytes, message: str) -> None:
    with pytest.raises(LayerError) as caught:
        compiler.compile_layer("points", data)
    assert message in str(caught.value)


def test_a_point_weighs_one_where_nothing_else_is_said() -> None:
    read = geojson.read_point_features(
        collection(point(1, LONDON, weight=2.5), point(2, LONDON), point(3, LONDON, weight=0))
    )
    assert read.weights.tolist() == [2.5, 1, 0]
    named = collection(point(1, LONDON, mag=4, weight=-9), point(2, LONDON))
    assert geojson.read_point_features(named, "mag").weights.tolist() == [4, 1]


def test_a_layer_counts_features_and_their_points() -> None:
    compiled = compiler.compile_layer("points", collection(point(1, LONDON), several(2, [[0, 0], [1, 1], [2, 2]])))
    assert (compiled.segments, compiled.positions, compiled.speeds.known) == (2, 4, 0)


def test_unlocated_features_and_altitudes_are_accepted() -> None:
    unlocated = {"type": "Feature", "geometry": None, "properties": None}
    read = geojson.read_point_features(collection(point(9, [*LONDON, 30]), unlocated))
    assert read.positions.tolist() == [LONDON]
    assert read.features == 2


def test_a_collection_of_points_is_accepted() -> None:
    members = [{"type": "Point", "coordinates": LONDON}, {"type": "MultiPoint", "coordinates": [[1, 2], [3, 4]]}]
    data = json.dumps({"type": "GeometryCollection", "geometries": members}).encode()
    assert len(geojson.read_point_features(data).weights) == 3


def test_bounds_are_the_narrowest_across_the_antimeridian_too() -> None:
    compiled = compiler.compile_layer("points", collection(point(1, [179, -10]), point(2, [-178, 10])))
    assert compiled.bounds.rounded().as_list() == [179, -10, -178, 10]


def test_points_at_the_poles_and_on_the_antimeridian_stand_on_the_map() -> None:
    placed = support_geojson.points_of(
        collection(*(point(None, [lon, lat]) for lon in (-180, 180) for lat in (-90, 90)))
    )
    assert set(placed.x.tolist()) == {0}
    assert set(placed.y.tolist()) == {0, arrays.GLOBE_UNITS - 1}


def test_written_points_are_read_again() -> None:
    placed = support_geojson.points_of(support_geojson.many_points(100))
    again = arrays.read_points(arrays.write_points(placed))
    assert np.array_equal(again.x, placed.x)
    assert np.array_equal(again.y, placed.y)
    assert np.array_equal(again.weights, placed.weights)


@given(st.permutations(range(12)))
def test_the_order_of_the_features_makes_no_difference(order: list[int]) -> None:
    features = json.loads(support_geojson.many_points(12))["features"]
    shuffled = collection(*(features[i] for i in order))
    assert arrays.write_points(support_geojson.points_of(shuffled)) == arrays.write_points(
        support_geojson.points_of(collection(*features))
    )


def test_a_window_round_the_globe_sees_a_point_once_for_each_turn() -> None:
    placed = support_geojson.points_of(collection(point(1, [0, 0])))
    window = Window(0, -512, 0, 3 * 512, 512)
    assert arrays.find_points_near(placed.x, placed.y, window, 0).x.tolist() == [256, 768, 1280]


def compiled(kind: LayerKind, *features: object) -> arrays.Geometry:
    return arrays.compile_geometry(geojson.read_features(collection(*features), kind))  # type: ignore[arg-type]


def test_a_line_across_the_antimeridian_runs_on_past_the_maps_edge() -> None:
    found = compiled("lines", line(1, [[179, 0], [-179, 0]]), line(2, [[-179, 0], [179, 0]]))
    spans = found.coordinates[:, 0].reshape(2, 2)
    assert spans[0] == pytest.approx([359 / 360, 361 / 360])
    assert spans[1] == pytest.approx([361 / 360, 359 / 360])
    assert (found.bounds.west, found.bounds.east) == pytest.approx((179, -179))


def test_a_ring_round_the_pole_is_closed_beyond_the_maps_edge() -> None:
    antarctica = [[-170, -70], [-90, -75], [0, -70], [90, -72], [170, -70], [-170, -70]]
    for ring in (antarctica, antarctica[::-1]):
        found = compiled("areas", area("antarctica", ring))
        assert found.coordinates[:, 0].max() - found.coordinates[:, 0].min() == pytest.approx(1)
        assert found.bounds.south == pytest.approx(-85.0511287798066)


def test_holes_follow_their_outer_ring_round_the_globe() -> None:
    found = compiled("areas", area("a", square(170, 0, 180, 10), square(171, 1, 172, 2)), area("b", square(0, 0, 1, 1)))
    assert found.groups.tolist() == [0, 2, 3]
    across = compiled(
        "areas", area("a", [[170, 0], [-170, 0], [-170, 10], [170, 10], [170, 0]], square(-175, 1, -172, 2))
    )
    assert across.coordinates[5:, 0].min() > 1


def test_an_orbit_is_cut_into_pieces_of_a_turn_that_follow_each_other() -> None:
    track = [[(23 * minute + 180) % 360 - 180, 50 * ((minute % 93) / 46.5 - 1)] for minute in range(2000)]
    found = compiled("lines", line("before", [[0, 0], [1, 1]]), line("orbit", track), line("after", [[0, 0], [1, 1]]))
    assert found.coordinates[:, 0].max() < 2.2
    assert found.features[0] == 0
    assert set(found.features[1:-1].tolist()) == {1}
    assert found.features[-1] == 2
    firsts, lasts = found.coordinates[found.offsets[1:-2]], found.coordinates[found.offsets[2:-1] - 1]
    steps = firsts[1:] - lasts[:-1]
    assert np.abs(steps[:, 0] - np.round(steps[:, 0])).max() < 1e-9
    assert np.abs(steps[:, 1]).max() < 1e-9


def test_an_area_that_goes_round_the_globe_many_times_is_refused() -> None:
    spiral = [[(100 * step + 180) % 360 - 180, step / 10] for step in range(40)]
    with pytest.raises(LayerError, match="round the globe 11 times"):
        compiled("areas", area("spiral", [*spiral, spiral[0]]))


def test_written_geometry_is_read_back_and_equal_geometries_are_equal_files() -> None:
    found = compiled("lines", line("a", [[0, 51], [1, 52]]), line("b “", [[0, 51], [1, 52], [2, 53]]))
    data = arrays.write_geometry(found, ["a", "b “"])
    back = arrays.read_geometry(data)
    for name in ("coordinates", "offsets", "rings", "groups", "features"):
        assert np.array_equal(getattr(back, name), getattr(found, name)), name
    assert back.bounds == found.bounds
    assert arrays.read_segment_ids(data) == ["a", "b “"]
    assert arrays.write_geometry(back, ["a", "b “"]) == data


def test_features_without_geometry_keep_their_place() -> None:
    nowhere: dict[str, object] = {"type": "Feature", "geometry": None, "properties": {}}
    assert compiled("lines", nowhere, line("b", [[0, 51], [1, 52]])).features.tolist() == [1]
