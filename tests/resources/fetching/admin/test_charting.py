"""The chart of a domain: what is drawn, and what stands in the table."""

from datetime import timedelta

import pytest

from resources.charts import HEIGHT, WIDTH
from resources.fetching.admin.charting import STEPS, Tally, chart
from tests.resources.fetching.fetches import NOON


def tallies(counts: dict[int, tuple[int, int]], hours: int = 6) -> list[Tally]:
    """The steps of so many hours, some of them with requests and refusals."""
    steps = int(timedelta(hours=hours) / STEPS[hours])
    return [Tally(NOON + index * STEPS[hours], *counts.get(index, (0, 0))) for index in range(steps)]


def test_numbers_are_per_minute_whatever_the_step() -> None:
    found = chart(tallies({0: (10, 5), 71: (1, 0)}), 6)
    assert [(row.requests, row.refused) for row in (found.rows[0], found.rows[1], found.rows[71])] == [
        (2, 1),
        (0, 0),
        (0.2, 0),
    ]
    assert [row.at for row in found.busy_rows] == [NOON + 71 * STEPS[6], NOON]


def test_the_rate_is_that_of_the_hour_before() -> None:
    found = chart(tallies({0: (60, 0), 20: (120, 0)}), 6)
    assert found.rows[0].rate == 12  # there is no hour before it yet
    assert found.rows[11].rate == 1
    assert found.rows[12].rate == 0
    assert found.rows[31].rate == 2


def test_bars_stand_on_the_ground_within_the_plot() -> None:
    found = chart(tallies({index: (index, index // 2) for index in range(72)}), 6)
    for bar in (*found.requests.bars, *found.refused.bars):
        assert bar.y + bar.height == pytest.approx(HEIGHT, abs=0.02)
        assert 0 <= bar.x < bar.x + bar.width <= WIDTH
        assert bar.y >= 0
    assert len(found.requests.bars) == 71  # a step without requests has none
    assert found.requests.bars[0].label == "12:05 UTC: 0.2 requests per minute"
    assert found.refused.bars[-1].label == "17:55 UTC: 7 refused per minute"


def test_few_among_many_are_still_seen() -> None:
    found = chart(tallies({0: (1_000_000, 0), 1: (1, 0)}), 6)
    assert found.requests.bars[1].height >= 1


def test_the_line_of_the_rate_stays_within_the_plot() -> None:
    found = chart(tallies({0: (1000, 0)}), 6)
    points = [tuple(map(float, point.split(","))) for point in found.requests.line.split()]
    assert len(points) == 72
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in points)


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ({}, "No requests in the last 6 hours."),
        ({3: (1200, 7)}, "1,200 requests in the last 6 hours, 7 of them refused; at most 240 per minute."),
    ],
)
def test_a_sentence_sums_it_up(counts: dict[int, tuple[int, int]], said: str) -> None:
    assert chart(tallies(counts), 6).summary == said
    assert chart(tallies({}, 1), 1).summary == "No requests in the last hour."
