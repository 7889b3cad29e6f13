"""The state of a layer in words: bounds, and the time of its version."""

from datetime import UTC, datetime

import pytest

from resources.tiles import grid, layer_state


@pytest.mark.parametrize(
    ("value", "said"), [(0.0, "0°"), (-0.0, "0°"), (51.5, "51.5°"), (-0.000001, "0°"), (85.0511287798066, "85.05113°")]
)
def test_degrees_are_said_to_a_metre(value: float, said: str) -> None:
    assert layer_state.format_degrees(value) == said


def test_the_version_tells_when_it_was_made() -> None:
    [changed, version] = layer_state.version_facts(1_795_263_648_251_234)
    assert changed.moment == datetime(2026, 11, 21, 12, 20, 48, tzinfo=UTC)
    assert version.value == "1795263648251234"


def test_bounds_across_the_antimeridian_are_said_to_be() -> None:
    facts = {fact.term: fact for fact in layer_state.map_facts(3, 3, grid.Bounds(170, -20, -170, 20), {})}
    assert facts["Bounds"].meaning == "across the antimeridian"
    assert facts["Zooms"].value == "3"
    assert "Metatiles" not in facts
