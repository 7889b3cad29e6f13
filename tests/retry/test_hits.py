"""Counts as the admin and the metrics ask for them."""

import pytest
from pytest_django import Settings

from retry import connections, hits, periods, popularity
from retry.errors import StoreUnavailable
from retry.popularity import Hit
from tests.conftest import RedisServers

NOON = 1_795_262_400.0  # a period begins
HOUR, DAY = 3600.0, 86_400.0


def count(answer: str, moment: float, number: int, now: float = NOON) -> None:
    found = [Hit("tile", "jams", answer, True, periods.period(moment, now), number)]
    assert connections.execute(popularity.counting("here", b"", b"", found, {})) == 1


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
