import json
import re
from pathlib import Path

import numpy as np
import pytest

from resources.tiles.errors import LayerError
from resources.tiles.styling import colours, style


def test_traffic_is_classified_by_its_share_of_free_flow() -> None:
    speed = np.array([50, 40, 39.9, 25, 24.9, 12.5, 12.4, 0, np.nan, 30], np.float32)
    free_flow = np.array([50] * 9 + [np.nan], np.float32)
    assert colours.classify(speed, free_flow).tolist() == [
        colours.GREEN,
        colours.GREEN,
        colours.YELLOW,
        colours.YELLOW,
        colours.RED,
        colours.RED,
        colours.DARK_RED,
        colours.DARK_RED,
        colours.GREY,
        colours.GREY,
    ]


def test_the_worst_class_is_drawn_last() -> None:
    assert colours.GREY < colours.GREEN < colours.YELLOW < colours.RED < colours.DARK_RED


def test_widths_are_interpolated_between_zooms() -> None:
    parsed = style.parse_style("lines", {"widths": {"8": 1, "12": 3}})
    assert [parsed.width_at(zoom) for zoom in (0, 8, 10, 12, 22)] == [1, 1, 2, 3, 3]


def test_the_legend_names_colours_as_they_are_painted() -> None:
    entries = style.legend("lines", {"colours": {"green": "#00ff0080"}})
    assert entries[0] == {"name": "green", "label": "Free flow", "colour": "#00ff0080"}
    assert [entry["name"] for entry in entries] == ["green", "yellow", "red", "dark_red", "grey"]
    assert style.legend("areas", {}) == []


BAD = {
    "not an object": ("lines", [], "JSON object"),
    "an unknown member": ("lines", {"color": "red"}, "has no “color”"),
    "thresholds of areas": ("areas", {"thresholds": [3, 2, 1]}, "has no “thresholds”"),
    "colours as a list": ("lines", {"colours": ["#ffffff"]}, "JSON object"),
    "an unknown colour": ("lines", {"colours": {"blue": "#0000ff"}}, "no colour “blue”"),
    "a colour's name": ("lines", {"colours": {"green": "green"}}, "#rrggbb"),
    "a short colour": ("areas", {"colours": {"fill": "#fff"}}, "#rrggbb"),
    "a colour with a tail": ("areas", {"colours": {"fill": "#ffffff\n"}}, "#rrggbb"),
    "widths as a number": ("lines", {"widths": 3}, "from zoom to pixels"),
    "a zoom that is none": ("lines", {"widths": {"far": 3}}, "not a zoom"),
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
def test_bad_styles_are_refused_with_a_reason(kind: str, given: object, message: str) -> None:
    with pytest.raises(LayerError) as caught:
        style.parse_style(kind, given)
    assert message in str(caught.value)


PAGE = Path(__file__).parents[4] / "docs" / "styles.md"


@pytest.mark.parametrize("kind", ["lines", "areas", "points"])
def test_the_styles_that_the_documentation_shows_are_styles(kind: str) -> None:
    section = PAGE.read_text().split(f"## {kind.capitalize()}")[1].split("\n## ")[0]
    [examples] = re.findall(r"```json\n(.*?)```", section, re.DOTALL)
    for example in examples.splitlines():
        style.parse_style(kind, json.loads(example))
