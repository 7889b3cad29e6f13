"""What charts over time have in common: their axes end at round numbers and times."""

from datetime import UTC, datetime, timedelta

import pytest

from resources.charts import nice_top, reach, ticks
from resources.fetching.admin.charting import STEPS
from resources.mirroring.admin.charting import SPANS

CHARTS = [
    *((timedelta(hours=hours), step) for hours, step in STEPS.items()),
    *((timedelta(days=days), span) for days, span in SPANS.items()),
]


@pytest.mark.parametrize(("length", "step"), CHARTS)
def test_a_chart_reaches_from_whole_steps_to_the_end_of_the_one_that_is_now(length: timedelta, step: timedelta) -> None:
    now = datetime(2026, 11, 21, 12, 7, 30, tzinfo=UTC)
    since, until = reach(now, length, step)
    assert until - since == length
    assert until - step <= now < until
    assert since.timestamp() % step.total_seconds() == 0


def test_the_end_of_a_step_is_the_beginning_of_the_next() -> None:
    noon, hour = datetime(2026, 11, 21, 12, tzinfo=UTC), timedelta(hours=1)
    assert reach(noon, hour, hour / 12) == (noon - hour + hour / 12, noon + hour / 12)


def test_the_times_below_a_chart_are_its_ends_and_what_divides_it_evenly() -> None:
    noon, hour = datetime(2026, 11, 21, 12, tzinfo=UTC), timedelta(hours=1)
    assert ticks(noon, 4 * hour) == tuple(noon + number * hour for number in range(5))


@pytest.mark.parametrize(
    ("most", "top"), [(0, 1), (0.2, 1), (1, 1), (1.1, 2), (2.2, 2.5), (4, 5), (6, 10), (11, 20), (999, 1000)]
)
def test_an_axis_ends_at_a_round_number(most: float, top: float) -> None:
    assert nice_top(most) == top
