import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.warming import benefit
from resources.warming.benefit import COLD, Candidate, Standing

HALF_LIFE, HORIZON = 21_600.0, 3600.0
amounts = st.floats(0, 1e6)
seconds = st.floats(0.001, 120)
left = st.floats(0, 100_000)


def worth(requests: float, standing: Standing = COLD, cost: float = 0.1) -> float:
    return benefit.benefit(Candidate(requests, standing, cost), HALF_LIFE, HORIZON)


def test_a_steady_rate_gives_the_weight_that_it_is_told_from() -> None:
    arriving = 3.0
    weight = arriving * HALF_LIFE / math.log(2)  # the integral of what each request weighs, by its age
    assert benefit.rate(weight, HALF_LIFE) == pytest.approx(arriving)


def test_what_nobody_asks_for_is_worth_nothing() -> None:
    assert worth(0) == 0
    assert worth(-1) == 0


def test_what_stays_fresh_until_the_horizon_is_worth_nothing() -> None:
    assert worth(100, Standing(HORIZON, HORIZON)) == 0
    assert worth(100, Standing(HORIZON - 60, HORIZON - 60)) > 0


def test_cold_comes_before_stale_before_fresh() -> None:
    for requests in (1, 10, 100):
        stale, soon = Standing(0, HORIZON), Standing(HORIZON / 2, HORIZON)
        assert worth(requests) > worth(requests, stale) > worth(requests, soon) > 0


def test_cheap_comes_before_dear_and_popular_before_seldom() -> None:
    assert worth(5, cost=0.1) > worth(5, cost=0.2)
    assert worth(6) > worth(5)


def test_seldom_and_cheap_comes_before_popular_and_dear_by_what_a_second_spares() -> None:
    found = benefit.in_order(
        [
            ("popular and dear", Candidate(40, COLD, 8.0)),
            ("seldom and cheap", Candidate(10, COLD, 0.1)),
            ("never", Candidate(0, COLD, 0.1)),
            ("popular and cheap", Candidate(40, COLD, 0.1)),
        ],
        HALF_LIFE,
        HORIZON,
    )
    assert [key for key, _ in found] == ["popular and cheap", "seldom and cheap", "popular and dear"]


def test_equal_ones_keep_their_order() -> None:
    same = [(key, Candidate(3, COLD, 0.1)) for key in "cab"]
    assert [key for key, _ in benefit.in_order(same, HALF_LIFE, HORIZON)] == ["c", "a", "b"]


def test_one_that_is_asked_for_all_the_time_spares_the_first_and_those_who_wait_with_it() -> None:
    per_second, cost = 2.0, 5.0
    requests = per_second * HALF_LIFE / math.log(2)
    assert worth(requests, cost=cost) * cost == pytest.approx(1 + per_second * cost, rel=0.01)


@given(amounts, seconds, left, left)
def test_the_probability_is_one(requests: float, cost: float, fresh: float, kept: float) -> None:
    arriving = benefit.rate(requests, HALF_LIFE)
    assert 0 <= benefit.probability(Standing(fresh, kept), arriving, HORIZON, cost) <= 1


@given(st.floats(0.01, 1e5), seconds, left)
def test_it_falls_with_the_freshness_that_is_left(requests: float, cost: float, fresh: float) -> None:
    arriving = benefit.rate(requests, HALF_LIFE)
    kept = fresh + HORIZON
    sooner = benefit.probability(Standing(fresh / 2, kept), arriving, HORIZON, cost)
    assert sooner >= benefit.probability(Standing(fresh, kept), arriving, HORIZON, cost) - 1e-12
