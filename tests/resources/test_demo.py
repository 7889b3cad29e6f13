"""The demo's conversion and its generated speeds."""

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from resources.demo import converting, speeds

TOPOLOGY: dict[str, Any] = {
    "type": "Topology",
    "transform": {"scale": [0.5, 0.25], "translate": [10.0, 50.0]},
    "arcs": [[[0, 0], [2, 0]], [[2, 0], [0, 4]], [[2, 4], [-2, -4]]],
    "objects": {
        "areas": {
            "type": "GeometryCollection",
            "geometries": [
                {"type": "Polygon", "id": "a", "arcs": [[0, 1, 2]]},
                {"type": "Polygon", "arcs": [[~2, ~1, ~0]]},
            ],
        },
        "lines": {
            "type": "GeometryCollection",
            "geometries": [{"type": "LineString", "id": "Left & Right", "arcs": [0, 1]}],
        },
    },
}


def test_arcs_are_decoded_by_adding_up_their_deltas() -> None:
    assert converting.decode_arcs(TOPOLOGY)[1] == [(11.0, 50.0), (11.0, 51.0)]


def test_arcs_are_joined_without_repeating_the_point_they_share() -> None:
    arcs = converting.decode_arcs(TOPOLOGY)
    assert converting.join_arcs(arcs, [0, 1]) == [(10.0, 50.0), (11.0, 50.0), (11.0, 51.0)]


def test_an_index_below_zero_means_the_arc_backwards() -> None:
    arcs = converting.decode_arcs(TOPOLOGY)
    assert converting.join_arcs(arcs, [~1, ~0]) == [(11.0, 51.0), (11.0, 50.0), (10.0, 50.0)]


def test_areas_become_closed_rings_with_ids() -> None:
    features = list(converting.area_features(TOPOLOGY, "areas", "area"))
    assert [feature["id"] for feature in features] == ["area-0", "area-1"]
    for feature in features:
        ring = feature["geometry"]["coordinates"][0]
        assert ring[0] == ring[-1]


def test_a_border_shared_by_two_countries_is_drawn_once() -> None:
    assert len(list(converting.outline_features(TOPOLOGY, "areas", "border"))) == 3


def test_outlines_along_the_antimeridian_are_left_out() -> None:
    line = [(170.0, 1.0), (180.0, 1.0), (180.0, 5.0), (170.0, 5.0)]
    assert list(converting.without_antimeridian(line)) == [line[:2], line[2:]]


@pytest.mark.parametrize("metres", [1_000.0, 7_000.0, 40_000.0, 1_000_000.0])
def test_a_line_is_cut_into_pieces_that_follow_each_other_and_are_about_equal(metres: float) -> None:
    line = [(10.0, 50.0), (10.01, 50.0), (11.0, 50.0), (11.0, 51.0)]
    pieces = list(converting.cut(line, metres))
    lengths = [sum(converting.distance_metres(a, b) for a, b in pairwise(piece)) for piece in pieces]
    total = sum(converting.distance_metres(a, b) for a, b in pairwise(line))
    assert pieces[0][0] == line[0]
    assert pieces[-1][-1] == line[-1]
    assert all(before[-1] == after[0] for before, after in pairwise(pieces))
    assert math.isclose(sum(lengths), total, rel_tol=1e-6)
    assert max(lengths) <= min(lengths) * 1.01 + 2


def test_segments_carry_their_line_and_an_id_of_their_own() -> None:
    features = list(converting.segment_features(TOPOLOGY, "lines"))
    assert features[0]["id"] == "left-right-1"
    assert {feature["properties"]["line"] for feature in features} == {"Left & Right"}
    assert len({feature["id"] for feature in features}) == len(features)


@pytest.mark.parametrize(
    ("name", "kinds"),
    [("land", {"Polygon"}), ("london", {"Polygon"}), ("countries", {"LineString"}), ("tube", {"LineString"})],
)
def test_committed_files_hold_unique_ids_and_coordinates_on_earth(name: str, kinds: set[str]) -> None:
    features = features_of(name)
    assert len({feature["id"] for feature in features}) == len(features) > 30
    assert {feature["geometry"]["type"] for feature in features} == kinds
    for feature in features:
        coordinates = feature["geometry"]["coordinates"]
        for line in coordinates if kinds == {"Polygon"} else [coordinates]:
            assert len(line) >= 2
            assert all(abs(x) <= 180 and abs(y) <= 90 for x, y in line)


def test_speeds_of_the_same_moment_are_the_same() -> None:
    assert speeds.speeds_at(1_795_000_000, tube()) == speeds.speeds_at(1_795_000_000, tube())


def test_speeds_stay_between_standing_and_free_flow() -> None:
    segments = tube()
    for seconds in range(0, 3600, 240):
        found = speeds.speeds_at(seconds, segments)
        assert all(0 < found[each.key] <= each.free_flow_kmh for each in segments if each.key in found)


def test_speeds_change_smoothly() -> None:
    segments = tube()
    before, after = speeds.speeds_at(1000, segments), speeds.speeds_at(1005, segments)
    assert before != after
    assert max(abs(after[key] - before[key]) for key in before) < 6


def test_at_every_time_some_lines_are_free_and_some_are_jammed() -> None:
    segments = tube()
    flow = {each.key: each.free_flow_kmh for each in segments}
    for seconds in range(0, 7200, 300):
        shares = [speed / flow[key] for key, speed in speeds.speeds_at(seconds, segments).items()]
        assert min(shares) < 0.5
        assert max(shares) > 0.8


def test_a_line_without_data_has_no_speed() -> None:
    found = speeds.speeds_at(0, tube())
    missing = {each.line for each in tube() if each.key not in found}
    assert missing == {"Waterloo & City"}


def features_of(name: str) -> list[dict[str, Any]]:
    path = Path(converting.__file__).parent / "data" / f"{name}.geojson"
    features: list[dict[str, Any]] = json.loads(path.read_text())["features"]
    return features


def tube() -> list[speeds.Segment]:
    return [
        speeds.Segment(
            each["id"],
            each["properties"]["line"],
            *each["geometry"]["coordinates"][0],
            each["properties"]["free_flow"],
        )
        for each in features_of("tube")
    ]
