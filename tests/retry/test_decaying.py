"""Decay: weights halve with each half-life, and what is kept as of a landmark agrees with a direct sum."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retry import decaying

HOUR = 3600.0


def test_a_request_of_now_weighs_one_and_one_of_a_half_life_ago_half() -> None:
    assert decaying.weight(0, HOUR) == 1
    assert decaying.weight(HOUR, HOUR) == 0.5
    assert decaying.weight(3 * HOUR, HOUR) == 0.125


@pytest.mark.parametrize("age", [-1.0, -1e12])
def test_a_request_from_the_future_weighs_as_one_of_now(age: float) -> None:
    assert decaying.weight(age, HOUR) == 1


@pytest.mark.parametrize("age", [1e300, math.inf])
def test_no_age_is_too_great(age: float) -> None:
    assert decaying.weight(age, HOUR) < 1e-300


@given(st.lists(st.floats(0, 100 * HOUR), max_size=20), st.floats(0, 100 * HOUR))
def test_scores_kept_as_of_a_landmark_are_worth_the_sum_of_their_requests(ages: list[float], landmark: float) -> None:
    now = 100 * HOUR
    score = sum(2 ** ((now - age - landmark) / HOUR) for age in ages)  # as the script in `state` keeps it
    direct = sum(decaying.weight(age, HOUR) for age in ages)
    assert decaying.value(score, landmark, HOUR, now) == pytest.approx(direct)
