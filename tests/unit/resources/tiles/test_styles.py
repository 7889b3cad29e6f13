"""Styles of layers: checks, ramps, legends and widths."""

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from resources.tiles import styles
from resources.tiles.errors import LayerError

BAD: dict[str, tuple[str, Any, str]] = {
    "no object for points": ("points", [], "A style is a JSON object"),
    "another mode": ("points", {"mode": "hexagons"}, "“mode” is one of clusters, heat, dots"),
    "widths of points": (
        "points",
        {"widths": {"8": 1}},
        "A style of points has no “widths”; it has colours, mode, radius",
    ),
    "a radius that is text": ("points", {"radius": "48"}, "“radius” of clusters is 20 to 200 pixels"),
    "a radius that is too small": ("points", {"mode": "heat", "radius": 3.9}, "“radius” of heat is 4 to 120 pixels."),
    "a radius that is endless": ("points", {"mode": "dots", "radius": float("inf")}, "or two of them"),
    "two radii that fall": (
        "points",
        {"mode": "dots", "radius": [9, 3]},
        "that of the least weight and that of the most",
    ),
    "a weight without a name": ("points", {"weight": " "}, "“weight” is the name of a property"),
    "a weight of a long name": ("points", {"weight": "x" * 101}, "1 to 100 characters"),
    "a colour of another mode": (
        "points",
        {"mode": "heat", "colours": {"fill": "#000000"}},
        "There is no colour “fill” here",
    ),
    "not an object": ("lines", [], "JSON object"),
    "an unknown member": ("lines", {"color": "red"}, "has no “color”"),
    "thresholds of areas": ("areas", {"thresholds": [3, 2, 1]}, "has no “thresholds”"),
    "colours as a list": ("lines", {"colours": ["#ffffff"]}, "JSON object"),
    "an unknown colour": ("lines", {"colours": {"blue": "#0000ff"}}, "no colour “blue”"),
    "a colour's name": ("lines", {"colours": {"green": "green"}}, "#rrggbb"),
    "a colour with a tail": ("areas", {"colours": {"fill": "#ffffff\n"}}, "#rrggbb"),
    "widths as a number": ("lines", {"widths": 3}, "from zoom to pixels"),
    "a zoom too far": ("lines", {"widths": {"23": 3}}, "not a zoom"),
    "no width": ("lines", {"widths": {"3": 0}}, "above 0"),
    "a width that is not a number": ("lines", {"widths": {"3": float("nan")}}, "above 0"),
    "a width of a whole tile": ("lines", {"widths": {"3": 256}}, "at most 64"),
    "two thresholds": ("lines", {"thresholds": [0.5, 0.2]}, "three numbers"),
    "rising thresholds": ("lines", {"thresholds": [0.2, 0.5, 0.8]}, "fall"),
    "thresholds of a thousand digits": ("lines", {"thresholds": [10**400, 0.5, 0.2]}, "finite"),
    "thresholds without end": ("lines", {"thresholds": [float("inf"), 0.5, 0.2]}, "finite"),
}


@pytest.mark.parametrize(("kind", "given", "message"), BAD.values(), ids=BAD.keys())
def test_a_wrong_style_is_refused_with_a_reason(kind: str, given: Any, message: str) -> None:
    with pytest.raises(LayerError) as caught:
        styles.parse_style(kind, given)
    assert message in str(caught.value)


def test_points_are_clusters_unless_the_style_says_otherwise() -> None:
    parsed = styles.parse_style("points", {})
    assert (parsed.mode, parsed.radius, parsed.weight) == ("clusters", 48, None)
    assert len(parsed.palette) == 6


def test_a_ramp_goes_from_nothing_to_its_highest_colour() -> None:
    parsed = styles.parse_style("points", {"mode": "heat", "colours": {"highest": "#ff0000", "low": "#0000ff"}})
    assert len(parsed.palette) == 255
    assert parsed.palette[0][3] == 0
    assert parsed.palette[-1][:3] == (255, 0, 0)
    alphas = [colour[3] for colour in parsed.palette]
    assert alphas == sorted(alphas)
    assert max(abs(a - b) for a, b in pairwise(alphas)) <= 4


def test_the_legend_of_clusters_names_their_sizes() -> None:
    entries = styles.layer_legend("points", {"colours": {"few": "#00ff00"}})
    assert [entry["label"] for entry in entries] == ["1", "2–9", "10–99", "100 and more"]
    assert [entry["shape"] for entry in entries] == ["dot", "disc", "disc", "disc"]  # two of them have one colour
    assert entries[1]["colour"] == "#00ff00"


def test_the_legend_of_heat_goes_from_low_to_highest() -> None:
    entries = styles.layer_legend("points", {"mode": "heat", "colours": {"low": "#0000ff"}})
    assert [entry["name"] for entry in entries] == ["low", "medium", "high", "highest"]
    assert {entry["shape"] for entry in entries} == {"ramp"}
    assert entries[0]["colour"] == "#0000ff"


def test_the_legend_of_dots_is_one_dot() -> None:
    assert styles.layer_legend("points", {"mode": "dots", "colours": {"fill": "#112233"}}) == [
        {"name": "fill", "label": "Point", "colour": "#112233", "shape": "disc"}
    ]


@pytest.mark.parametrize(
    ("given", "tiles"),
    [({}, 0.125), ({"radius": 200}, 0.4), ({"mode": "heat", "radius": 120}, 0.47), ({"mode": "dots"}, 0.125)],
)
def test_tiles_beyond_the_bounds_are_painted_as_far_as_points_reach(given: dict[str, Any], tiles: float) -> None:
    assert styles.style_padding("points", given) == pytest.approx(tiles, abs=0.01)
    assert styles.style_padding("lines", {}) == 0.125


def test_discs_grow_with_the_count_within_half_of_what_is_gathered() -> None:
    radii = [styles.cluster_radius(48, 10**power) for power in range(9)]
    assert radii == sorted(radii)
    assert radii[-1] <= 24


def test_widths_are_interpolated_between_zooms() -> None:
    parsed = styles.parse_style("lines", {"widths": {"8": 1, "12": 3}})
    assert [parsed.width_at(zoom) for zoom in (0, 8, 10, 12, 22)] == [1, 1, 2, 3, 3]


def test_the_legend_names_colours_as_they_are_painted() -> None:
    entries = styles.layer_legend("lines", {"colours": {"green": "#00ff0080"}})
    assert entries[0] == {"name": "green", "label": "Free flow", "colour": "#00ff0080"}
    assert [entry["name"] for entry in entries] == ["green", "yellow", "red", "dark_red", "grey"]
    assert styles.layer_legend("areas", {}) == []


PAGE = Path(__file__).parents[4] / "docs" / "styles.md"


@pytest.mark.parametrize("kind", ["lines", "areas", "points"])
def test_the_styles_that_the_documentation_shows_are_styles(kind: str) -> None:
    section = PAGE.read_text().split(f"## {kind.capitalize()}")[1].split("\n## ")[0]
    [examples] = re.findall(r"```json\n(.*?)```", section, re.DOTALL)
    for example in examples.splitlines():
        styles.parse_style(kind, json.loads(example))
