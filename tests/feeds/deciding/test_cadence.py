"""How often a feed is looked at, by how often it published."""

from datetime import timedelta

import pytest

from feeds.deciding.cadence import interval
from feeds.deciding.standing import Rules
from tests.feeds.deciding.answers import DAY, HOUR, MINUTE, NOW

RULES = Rules()


def every(gap: timedelta, times: int, newest: timedelta) -> list[timedelta]:
    return [newest + gap * number for number in range(times)]


@pytest.mark.parametrize(
    ("ago", "expected", "why"),
    [
        pytest.param([], HOUR, "Nothing tells how often", id="no dates"),
        pytest.param([MINUTE], HOUR, "published once", id="one entry"),
        pytest.param([100 * DAY], 10 * DAY, "Nothing new for 100 d", id="one entry, long ago"),
        pytest.param(every(6 * HOUR, 10, HOUR), 3 * HOUR, "about every 6 h:", id="regular"),
        pytest.param(every(DAY, 30, 2 * HOUR), 12 * HOUR, "about every 1 d:", id="daily"),
        pytest.param(every(HOUR, 30, 20 * HOUR), 2 * HOUR, "Nothing new for 20 h", id="quieter than usual"),
        pytest.param(every(HOUR, 10, HOUR) + every(30 * DAY, 5, DAY), HOUR / 2, "every 1 h:", id="the median counts"),
        pytest.param([timedelta(-1), -HOUR, *every(6 * HOUR, 9, HOUR)], 3 * HOUR, "every 6 h:", id="dates ahead"),
    ],
)
def test_a_feed_is_looked_at_twice_as_often_as_it_publishes(
    ago: list[timedelta], expected: timedelta, why: str
) -> None:
    found = interval([NOW - each for each in ago], NOW, RULES)
    assert found.length == expected
    assert why in found.why


def test_ten_entries_at_once_are_one_publication() -> None:
    ago = [DAY * day + MINUTE * minute for day in range(1, 6) for minute in range(10)]
    found = interval([NOW - each for each in ago], NOW, RULES)
    assert found.length == pytest.approx(DAY / 2, abs=10 * MINUTE)


def test_only_the_last_publications_count() -> None:
    ago = every(HOUR, 21, HOUR) + every(10 * DAY, 100, 10 * DAY)
    assert interval([NOW - each for each in ago], NOW, RULES).length == HOUR / 2
