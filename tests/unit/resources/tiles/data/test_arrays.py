import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.tiles.errors import LayerError, SpeedsError
from resources.tiles.reading import compiling, geojson, point_features, points
from resources.tiles.window import Window

from .. import builders
from ..builders import area, collection, line, point

LONDON = [-0.1, 51.5]


def several(identity: int, positions: Any, **properties: Any) -> dict[str, Any]:
    feature = point(identity, positions, **properties)
    feature["geometry"]["type"] = "MultiPoint"
    return feature


BAD: dict[str, tuple[bytes, str]] = {
    "an empty file": (b"", "The file is empty"),
    "an empty collection": (collection(), "FeatureCollection is empty"),
    "not JSON": (b"<kml/>", "not JSON"),
    "lines among points": (
        collection(point(1, LONDON), line("x", [[0, 1], [1, 2]])),
        "Feature 1 (“x”): is a LineString; a layer of points cannot show it.",
    ),
    "areas": (collection(area(1, builders.square(0, 0, 1, 1))), "is a Polygon; a layer of points"),
    "duplicate ids": (collection(point("a", LONDON), point("a", LONDON)), "Features 0 and 1 have the same id “a”"),
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
    "features without geometry only": (
        collection({"type": "Feature", "geometry": None, "properties": {}}),
        "no features with a geometry",
    ),
}


@pytest.mark.parametrize(("data", "message"), BAD.values(), ids=BAD.keys())
def test_bad_files_are_refused_with_a_reason(data: bytes, message: str) -> None:
    with pytest.raises(LayerError) as caught:
        compiling.compile_layer("points", data)
    assert message in str(caught.value)


def test_points_are_no_lines() -> None:
    with pytest.raises(LayerError, match="is a Point; a layer of lines cannot show it"):
        geojson.read_features(collection(point(1, LONDON)), "lines")


def test_points_have_no_speeds() -> None:
    with pytest.raises(SpeedsError, match="Only lines have speeds"):
        compiling.compile_layer("points", collection(point(1, LONDON)), b"segment_id,speed_kmh,free_flow_kmh\n")


def test_a_point_weighs_one_where_nothing_else_is_said() -> None:
    read = point_features.read_points(
        collection(point(1, LONDON, weight=2.5), point(2, LONDON), point(3, LONDON, weight=0))
    )
    assert read.weights.tolist() == [2.5, 1, 0]


def test_the_property_that_weighs_can_be_named() -> None:
    data = collection(point(1, LONDON, mag=4, weight=-9), point(2, LONDON))
    assert point_features.read_points(data, "mag").weights.tolist() == [4, 1]


def test_a_weight_that_no_feature_has_is_an_error() -> None:
    with pytest.raises(LayerError, match="No feature has the property “magnitude”"):
        point_features.read_points(collection(point(1, LONDON, mag=4)), "magnitude")


def test_a_layer_counts_features_and_their_points() -> None:
    compiled = compiling.compile_layer("points", collection(point(1, LONDON), several(2, [[0, 0], [1, 1], [2, 2]])))
    assert (compiled.segments, compiled.positions, compiled.speeds.known) == (2, 4, 0)


def test_unlocated_features_and_altitudes_are_accepted() -> None:
    unlocated = {"type": "Feature", "geometry": None, "properties": None}
    read = point_features.read_points(collection(point(9, [*LONDON, 30]), unlocated))
    assert read.positions.tolist() == [LONDON]
    assert read.features == 2


def test_a_collection_of_points_is_accepted() -> None:
    members = [{"type": "Point", "coordinates": LONDON}, {"type": "MultiPoint", "coordinates": [[1, 2], [3, 4]]}]
    data = json.dumps({"type": "GeometryCollection", "geometries": members}).encode()
    assert len(point_features.read_points(data).weights) == 3


def test_bounds_are_the_narrowest_across_the_antimeridian_too() -> None:
    compiled = compiling.compile_layer("points", collection(point(1, [179, -10]), point(2, [-178, 10])))
    assert compiled.bounds.rounded().as_list() == [179, -10, -178, 10]


def test_points_at_the_poles_and_on_the_antimeridian_stand_on_the_map() -> None:
    placed = builders.points_of(collection(*(point(None, [lon, lat]) for lon in (-180, 180) for lat in (-90, 90))))
    assert set(placed.x.tolist()) == {0}
    assert set(placed.y.tolist()) == {0, points.GLOBE - 1}


def test_what_is_written_is_read_again() -> None:
    placed = builders.points_of(builders.many_points(100))
    again = points.read_points(points.write_points(placed))
    assert np.array_equal(again.x, placed.x)
    assert np.array_equal(again.y, placed.y)
    assert np.array_equal(again.weights, placed.weights)


@given(st.permutations(range(12)))
def test_the_order_of_the_features_makes_no_difference(order: list[int]) -> None:
    features = json.loads(builders.many_points(12))["features"]
    shuffled = collection(*(features[i] for i in order))
    assert points.write_points(builders.points_of(shuffled)) == points.write_points(
        builders.points_of(collection(*features))
    )


def test_a_window_round_the_globe_sees_a_point_once_for_each_turn() -> None:
    placed = builders.points_of(collection(point(1, [0, 0])))
    window = Window(0, -512, 0, 3 * 512, 512)
    assert points.near(placed.x, placed.y, window, 0).x.tolist() == [256, 768, 1280]
