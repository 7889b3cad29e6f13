from itertools import pairwise
from typing import Any

import pytest

from resources.tiles.errors import LayerError
from resources.tiles.styling import point_style, style

BAD: dict[str, tuple[Any, str]] = {
    "no object": ([], "A style is a JSON object"),
    "another mode": ({"mode": "hexagons"}, "“mode” is one of clusters, heat, dots"),
    "a mode that is a list": ({"mode": ["heat"]}, "“mode” is one of"),
    "a style of lines": ({"widths": {"8": 1}}, "A style of points has no “widths”; it has colours, mode, radius"),
    "a radius that is text": ({"radius": "48"}, "“radius” of clusters is 20 to 200 pixels"),
    "a radius that is a truth": ({"radius": True}, "“radius” of clusters"),
    "a radius that is too small": ({"mode": "heat", "radius": 3.9}, "“radius” of heat is 4 to 120 pixels."),
    "a radius that is endless": ({"mode": "dots", "radius": float("inf")}, "or two of them"),
    "two radii of clusters": ({"radius": [20, 40]}, "“radius” of clusters"),
    "two radii that fall": ({"mode": "dots", "radius": [9, 3]}, "that of the least weight and that of the most"),
    "three radii": ({"mode": "dots", "radius": [1, 2, 3]}, "“radius” of dots"),
    "a weight that is a number": ({"weight": 3}, "“weight” is the name of a property"),
    "a weight without a name": ({"weight": " "}, "“weight” is the name of a property"),
    "a weight of a long name": ({"weight": "x" * 101}, "1 to 100 characters"),
    "a colour of another mode": ({"mode": "heat", "colours": {"fill": "#000000"}}, "There is no colour “fill” here"),
    "a colour by its name": ({"colours": {"text": "white"}}, "Colour “text” is written #rrggbb or #rrggbbaa"),
}


@pytest.mark.parametrize(("given", "message"), BAD.values(), ids=BAD.keys())
def test_a_wrong_style_is_refused_with_a_reason(given: Any, message: str) -> None:
    with pytest.raises(LayerError) as caught:
        style.parse_style("points", given)
    assert message in str(caught.value)


def test_points_are_clusters_unless_the_style_says_otherwise() -> None:
    parsed = style.parse_style("points", {})
    assert (parsed.mode, parsed.radius, parsed.weight) == ("clusters", 48, None)
    assert len(parsed.palette) == 6


def test_a_ramp_goes_from_nothing_to_its_highest_colour() -> None:
    parsed = style.parse_style("points", {"mode": "heat", "colours": {"highest": "#ff0000", "low": "#0000ff"}})
    assert len(parsed.palette) == 255
    assert parsed.palette[0][3] == 0
    assert parsed.palette[-1][:3] == (255, 0, 0)
    alphas = [colour[3] for colour in parsed.palette]
    assert alphas == sorted(alphas)
    assert max(abs(a - b) for a, b in pairwise(alphas)) <= 4


def test_the_legend_of_clusters_names_their_sizes() -> None:
    entries = style.legend("points", {"colours": {"few": "#00ff00"}})
    assert [entry["label"] for entry in entries] == ["1", "2–9", "10–99", "100 and more"]
    assert [entry["shape"] for entry in entries] == ["dot", "disc", "disc", "disc"]  # two of them have one colour
    assert entries[1]["colour"] == "#00ff00"


def test_the_legend_of_heat_goes_from_low_to_highest() -> None:
    entries = style.legend("points", {"mode": "heat", "colours": {"low": "#0000ff"}})
    assert [entry["name"] for entry in entries] == ["low", "medium", "high", "highest"]
    assert {entry["shape"] for entry in entries} == {"ramp"}
    assert entries[0]["colour"] == "#0000ff"


def test_the_legend_of_dots_is_one_dot() -> None:
    assert style.legend("points", {"mode": "dots", "colours": {"fill": "#112233"}}) == [
        {"name": "fill", "label": "Point", "colour": "#112233", "shape": "disc"}
    ]


@pytest.mark.parametrize(
    ("given", "tiles"),
    [({}, 0.125), ({"radius": 200}, 0.4), ({"mode": "heat", "radius": 120}, 0.47), ({"mode": "dots"}, 0.125)],
)
def test_tiles_beyond_the_bounds_are_painted_as_far_as_points_reach(given: dict[str, Any], tiles: float) -> None:
    assert style.padding("points", given) == pytest.approx(tiles, abs=0.01)
    assert style.padding("lines", {}) == 0.125


def test_discs_grow_with_the_count_within_half_of_what_is_gathered() -> None:
    radii = [point_style.cluster_radius(48, 10**power) for power in range(9)]
    assert radii == sorted(radii)
    assert radii[-1] <= 24
