"""Periods: what lies in the last hour is counted, and the oldest period in part."""

import pytest

from retry import periods

NOON = 1_795_262_400.0  # a period begins
HOUR, DAY = 3600.0, 86_400.0


def test_a_moment_belongs_to_its_period() -> None:
    assert periods.period(NOON, NOON + 1) == periods.period(NOON + 599, NOON + 600) == NOON // 600
    assert periods.period(NOON - 1, NOON) == NOON // 600 - 1


def test_a_moment_of_the_future_counts_as_now_and_one_of_long_ago_in_no_period() -> None:
    assert periods.period(NOON + 5000, NOON) == NOON // 600
    assert periods.period(NOON - DAY - 1, NOON) == -1


def test_the_oldest_period_counts_by_the_share_that_is_within() -> None:
    assert periods.shares(NOON + 150, 600) == {NOON // 600 - 1: 0.75, NOON // 600: 1.0}
    assert periods.shares(NOON, 600) == {NOON // 600 - 1: 1.0, NOON // 600: 1.0}


@pytest.mark.parametrize("seconds", [HOUR, DAY])
def test_the_shares_make_up_the_time(seconds: float) -> None:
    now = NOON + 150
    assert sum(periods.shares(now, seconds).values()) * 600 - (600 - 150) == pytest.approx(seconds)
