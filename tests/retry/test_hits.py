"""Counts by time: what lies in the last hour is counted, and the oldest period in part."""

import pytest
from pytest_django import Settings

from retry import connections, hits, popularity
from retry.errors import StoreUnavailable
from retry.popularity import Hit
from tests.conftest import RedisServers

NOON = 1_795_262_400.0  # a period begins
HOUR, DAY = 3600.0, 86_400.0


def count(answer: str, moment: float, number: int, now: float = NOON) -> None:
    found = [Hit("tile", "jams", answer, True, hits.period(moment, now), number)]
    assert connections.execute(popularity.counting("here", b"", b"", found, {})) == 1


def test_a_moment_belongs_to_its_period() -> None:
    assert hits.period(NOON, NOON + 1) == hits.period(NOON + 599, NOON + 600) == NOON // 600
    assert hits.period(NOON - 1, NOON) == NOON // 600 - 1


def test_a_moment_of_the_future_counts_as_now_and_one_of_long_ago_in_no_period() -> None:
    assert hits.period(NOON + 5000, NOON) == NOON // 600
    assert hits.period(NOON - DAY - 1, NOON) == -1


def test_the_oldest_period_counts_by_the_share_that_is_within() -> None:
    assert hits.shares(NOON + 150, 600) == {NOON // 600 - 1: 0.75, NOON // 600: 1.0}
    assert hits.shares(NOON, 600) == {NOON // 600 - 1: 1.0, NOON // 600: 1.0}


@pytest.mark.parametrize("seconds", [HOUR, DAY])
def test_the_shares_make_up_the_time(seconds: float) -> None:
    now = NOON + 150
    assert sum(hits.shares(now, seconds).values()) * 600 - (600 - 150) == pytest.approx(seconds)


def test_hits_are_told_for_ever_and_for_the_last_times(servers: RedisServers) -> None:
    count("hot", NOON - 60, 1)
    count("hot", NOON - 2 * HOUR, 10)
    count("passed", NOON - 2 * DAY, 100)
    ever, hour, day = hits.of_group("tile", "jams", NOON, (HOUR, DAY))
    assert (ever["hot"], ever["passed"]) == (11, 100)
    assert (hour["hot"], hour["passed"]) == (1, 0)
    assert (day["hot"], day["passed"]) == (11, 0)
    assert set(ever) == set(hits.ANSWERS)


def test_another_group_has_hits_of_its_own(servers: RedisServers) -> None:
    count("hot", NOON, 1)
    assert sum(hits.of_group("tile", "other", NOON, ())[0].values()) == 0


def test_periods_are_forgotten_after_a_day_and_sums_are_not(servers: RedisServers) -> None:
    count("hot", NOON, 1)
    assert DAY < servers.state.client.ttl(f"{hits.HITS}:{int(NOON // 600)}") <= DAY + 1200
    assert servers.state.client.ttl(hits.HITS) == -1


def test_without_the_state_nothing_is_told(settings: Settings) -> None:
    settings.REDIS_URL = "unix:///nowhere/state.sock"
    with pytest.raises(StoreUnavailable):
        hits.totals()
    with pytest.raises(StoreUnavailable):
        hits.of_group("tile", "jams", NOON, (HOUR,))
