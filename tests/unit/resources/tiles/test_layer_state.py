from datetime import UTC, datetime, timedelta, timezone

import pytest

from resources import layer_state
from resources.tiles import grid


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0 seconds"),
        (0.5, "0.5 seconds"),
        (1, "1 second"),
        (60, "1 minute"),
        (90, "1 minute 30 seconds"),
        (3_600, "1 hour"),
        (86_400, "1 day"),
        (90_061, "1 day 1 hour"),
        (31_536_000, "365 days"),
    ],
)
def test_durations_are_said_in_two_units_at_most(seconds: float, said: str) -> None:
    assert layer_state.duration(seconds) == said


def test_moments_are_said_in_utc() -> None:
    there = datetime(2026, 11, 3, 1, 2, 3, tzinfo=timezone(timedelta(hours=2)))
    assert layer_state.moment(there) == "2 November 2026, 23:02:03 UTC"


@pytest.mark.parametrize(
    ("value", "said"), [(0.0, "0°"), (-0.0, "0°"), (51.5, "51.5°"), (-0.000001, "0°"), (85.0511287798066, "85.05113°")]
)
def test_degrees_are_said_to_a_metre(value: float, said: str) -> None:
    assert layer_state.degrees(value) == said


def test_the_version_tells_when_it_was_made() -> None:
    [changed, version] = layer_state.version_facts(1_795_263_648_251_234)
    assert changed.moment == datetime(2026, 11, 21, 12, 20, 48, tzinfo=UTC)
    assert version.value == "1795263648251234"


def test_bounds_across_the_antimeridian_are_said_to_be() -> None:
    facts = {fact.term: fact for fact in layer_state.map_facts(3, 3, grid.Bounds(170, -20, -170, 20), {})}
    assert facts["Bounds"].meaning == "across the antimeridian"
    assert facts["Zooms"].value == "3"
    assert "Painted in blocks" not in facts
