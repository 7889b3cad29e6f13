"""Popularity in a real `state`: counted in one step or not at all, bounded, decayed, by period, and cheap to ask."""

import math
import time
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings

from retry import popularity, stores
from retry.conf import StateShare
from retry.errors import StoreUnavailable
from retry.popularity import PeriodHits, TotalHits
from tests.conftest import RedisServers

pytestmark = pytest.mark.usefixtures("servers")
HOUR, DAY = 3600.0, 86_400.0
NOON = 1_795_262_400.0  # a period begins
LANDMARK = "retry:{0}:popular:decays"


def count(
    weights: Mapping[str, float] = {}, found: Sequence[PeriodHits] = (), *, before: bytes = b"", after: bytes = b""
) -> bool:
    return stores.execute_call(popularity.count_call("here", before, after, found, weights)) == 1


def keys(kind: str = "tile", most: int = 10, beginning: str = "") -> list[str]:
    return [popular.content_key for popular in popularity.most_popular_contents(kind, most, beginning)]


def pass_time(servers: RedisServers, seconds: float, kind: str = "tile") -> None:
    """Lets the landmark lie so much further back, as if time had passed since."""
    held = servers.state.client.hget(LANDMARK, kind)
    assert held is not None
    landmark, half_life = (float(part) for part in held.split())
    servers.state.client.hset(LANDMARK, kind, f"{landmark - seconds:.6f} {half_life:.17g}")


def hit(answer: str = "hot", group: str = "jams", number: int = 1, *, exists: bool = True) -> PeriodHits:
    return PeriodHits("tile", group, answer, exists, popularity.period_number(time.time(), time.time()), number)


def test_requests_add_up_by_kind_and_keys_are_found_by_their_beginning_the_most_wanted_first() -> None:
    count({"tile:a:1": 3, "tile:b:1": 1, "tile:b:2": 1, "prime:7": 9})
    count({"tile:b:1": 1})
    assert popularity.weighted_requests("tile:b:1") == pytest.approx(2, rel=1e-3)
    assert popularity.weighted_requests("tile:unknown") == 0
    assert keys() == ["tile:a:1", "tile:b:1", "tile:b:2"]
    assert keys(beginning="tile:b:") == ["tile:b:1", "tile:b:2"]
    assert keys(most=1) == ["tile:a:1"]
    assert keys("prime") == ["prime:7"]
    assert keys("nothing") == []


def test_a_long_list_is_read_to_its_end_but_for_what_is_asked_for_less(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(popularity, "WINDOW_KEYS", 10)
    count({f"tile:a:{number}": 100 + number for number in range(15)} | {f"tile:b:{number}": 5 for number in range(50)})
    count({"tile:c:1": 1})
    assert keys(beginning="tile:c:") == ["tile:c:1"]
    windows, look = list[int](), popularity._load_window

    def window(kind: str, start: int) -> list[tuple[str, float]]:
        windows.append(start)
        return look(kind, start)

    monkeypatch.setattr(popularity, "_load_window", window)
    found = popularity.most_popular_contents("tile", 100, least=10)
    assert [one.content_key for one in found] == [f"tile:a:{number}" for number in reversed(range(15))]
    assert windows == [0, 10]


def test_popularity_halves_with_each_half_life(servers: RedisServers, settings: Settings) -> None:
    settings.POPULARITY_HALF_LIFE_SECONDS = HOUR
    count({"tile:a": 8})
    pass_time(servers, 3 * HOUR)
    assert popularity.weighted_requests("tile:a") == pytest.approx(1, rel=1e-3)
    count({"tile:b": 2})
    found = popularity.most_popular_contents("tile", 2)
    assert [one.content_key for one in found] == ["tile:b", "tile:a"]
    assert [one.requests for one in found] == pytest.approx([2, 1], rel=1e-3)


def test_scores_stay_numbers_however_long_the_site_runs(servers: RedisServers, settings: Settings) -> None:
    settings.POPULARITY_HALF_LIFE_SECONDS = HOUR
    for _ in range(40):  # 4,000 half-lives: 2 ** 4000 is beyond floats
        count({"tile:old": 1000, "tile:new": 1})
        pass_time(servers, 100 * HOUR)
    count({"tile:new": 1})
    assert popularity.weighted_requests("tile:new") == pytest.approx(1, rel=1e-3)
    assert math.isfinite(servers.state.client.zscore("retry:{0}:popular:tile", "tile:new") or 0)
    pass_time(servers, 501 * HOUR)
    count({"tile:newest": 1})
    assert keys() == ["tile:newest"]  # what has faded is forgotten when the landmark moves


def test_another_half_life_keeps_what_was_counted(servers: RedisServers, settings: Settings) -> None:
    settings.POPULARITY_HALF_LIFE_SECONDS = HOUR
    count({"tile:a": 8})
    pass_time(servers, HOUR)
    settings.POPULARITY_HALF_LIFE_SECONDS = 2 * HOUR
    count({"tile:b": 1})
    assert popularity.weighted_requests("tile:a") == pytest.approx(4, rel=1e-3)
    pass_time(servers, 2 * HOUR)
    assert popularity.weighted_requests("tile:a") == pytest.approx(2, rel=1e-3)


def test_a_clock_that_is_set_back_makes_nothing_more_popular(servers: RedisServers, settings: Settings) -> None:
    settings.POPULARITY_HALF_LIFE_SECONDS = HOUR
    count({"tile:a": 8})
    pass_time(servers, -1_000_000 * HOUR)
    assert popularity.weighted_requests("tile:a") == 8
    count({"tile:a": 1})
    assert popularity.weighted_requests("tile:a") == pytest.approx(9, rel=1e-3)
    assert math.isfinite(servers.state.client.zscore("retry:{0}:popular:tile", "tile:a") or 0)


def test_the_least_popular_keys_give_way(servers: RedisServers, settings: Settings) -> None:
    settings.POPULARITY_KEYS = 3
    odd = 'tile:"é\\ñ’\u2028:1'  # any key that content may have
    count({f"tile:{number}": number for number in range(1, 8)} | {odd: 9})
    assert keys() == [odd, "tile:7", "tile:6"]


def test_nothing_is_counted_when_the_position_has_moved_meanwhile() -> None:
    assert count({"tile:a": 1}, [hit()], before=b"", after=b"first")
    assert not count({"tile:a": 1}, [hit()], before=b"", after=b"second")
    assert popularity.weighted_requests("tile:a") == pytest.approx(1, rel=1e-3)
    assert popularity.load_totals() == [TotalHits("tile", "jams", "hot", 1)]
    assert count({"tile:a": 1}, [hit()], before=b"first", after=b"second")
    assert popularity.load_totals() == [TotalHits("tile", "jams", "hot", 2)]


def test_a_group_is_named_once_something_of_it_exists() -> None:
    count(found=[hit("missing", "invented", exists=False), hit("busy", "jams", exists=False)])
    assert popularity.load_totals() == [TotalHits("tile", "", "missing", 1), TotalHits("tile", "", "busy", 1)]
    count(found=[hit("hot"), hit("busy", exists=False)])
    assert {TotalHits("tile", "jams", "hot", 1), TotalHits("tile", "jams", "busy", 1)} <= set(popularity.load_totals())


def test_groups_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(popularity, "NAMED_GROUPS", StateShare(1, record_bytes=1024**3 // 2))
    count(found=[hit(group=group) for group in ("a", "b", "c", "d")])
    assert {(one.group, one.number) for one in popularity.load_totals()} == {("a", 1), ("b", 1), ("", 2)}


def test_popular_is_what_was_asked_for_often_enough(settings: Settings) -> None:
    settings.POPULAR_REQUESTS = 3
    count({"tile:a": 3.1, "tile:b": 2.9})
    assert popularity.is_popular("tile:a")
    assert not popularity.is_popular("tile:b")
    assert not popularity.is_popular("tile:unknown")
    assert popularity.is_popular("tile:a@2")  # another content of the same address
    settings.OBSERVE = False
    assert not popularity.is_popular("tile:a")


def test_without_the_state_nothing_is_popular(settings: Settings) -> None:
    settings.REDIS_URL = "unix:///nowhere/state.sock"
    assert not popularity.is_popular("tile:a")
    for load in (
        lambda: popularity.most_popular_contents("tile", 3),
        popularity.load_totals,
        lambda: popularity.load_group_hits("tile", "jams", NOON, (HOUR,)),
    ):
        with pytest.raises(StoreUnavailable):
            load()


def count_hits(answer: str, moment: float, number: int, now: float = NOON) -> None:
    found = [PeriodHits("tile", "jams", answer, True, popularity.period_number(moment, now), number)]
    assert stores.execute_call(popularity.count_call("here", b"", b"", found, {})) == 1


def test_hits_are_told_for_ever_and_for_the_last_times(servers: RedisServers) -> None:
    count_hits("hot", NOON - 60, 1)
    count_hits("hot", NOON - 2 * HOUR, 10)
    count_hits("passed", NOON - 2 * DAY, 100)
    ever, hour, day = popularity.load_group_hits("tile", "jams", NOON, (HOUR, DAY))
    assert (ever["hot"], ever["passed"]) == (11, 100)
    assert (hour["hot"], hour["passed"]) == (1, 0)
    assert (day["hot"], day["passed"]) == (11, 0)
    assert set(ever) == set(popularity.ANSWER_WORDS)
    assert sum(popularity.load_group_hits("tile", "other", NOON, ())[0].values()) == 0


def test_periods_are_forgotten_after_a_day_and_sums_are_not(servers: RedisServers) -> None:
    count_hits("hot", NOON, 1)
    assert DAY < servers.state.client.ttl(f"{popularity.hits_key()}:{int(NOON // 600)}") <= DAY + 1200
    assert servers.state.client.ttl(popularity.hits_key()) == -1


@pytest.mark.parametrize(
    ("age", "weight"), [(0, 1), (HOUR, 0.5), (3 * HOUR, 0.125), (-1.0, 1), (-1e12, 1), (1e300, 0), (math.inf, 0)]
)
def test_a_request_weighs_half_after_a_half_life_and_never_more_than_one(age: float, weight: float) -> None:
    assert popularity.decay_weight(age, HOUR) == pytest.approx(weight, abs=1e-300)


@given(st.lists(st.floats(0, 100 * HOUR), max_size=20), st.floats(0, 100 * HOUR))
def test_scores_kept_as_of_a_landmark_are_worth_the_sum_of_their_requests(ages: list[float], landmark: float) -> None:
    now = 100 * HOUR
    score = sum(2 ** ((now - age - landmark) / HOUR) for age in ages)  # as the script in `state` keeps it
    direct = sum(popularity.decay_weight(age, HOUR) for age in ages)
    assert popularity.decayed_value(score, landmark, HOUR, now) == pytest.approx(direct)


@pytest.mark.parametrize(
    ("moment", "now", "number"),
    [
        *((NOON, NOON + 1, NOON // 600), (NOON + 599, NOON + 600, NOON // 600), (NOON - 1, NOON, NOON // 600 - 1)),
        pytest.param(NOON + 5000, NOON, NOON // 600, id="the future counts as now"),
        pytest.param(NOON - DAY - 1, NOON, -1, id="long ago"),
    ],
)
def test_a_moment_belongs_to_its_period(moment: float, now: float, number: float) -> None:
    assert popularity.period_number(moment, now) == number


def test_the_oldest_period_counts_by_the_share_that_is_within() -> None:
    assert popularity.period_shares(NOON + 150, 600) == {NOON // 600 - 1: 0.75, NOON // 600: 1.0}
    assert popularity.period_shares(NOON, 600) == {NOON // 600 - 1: 1.0, NOON // 600: 1.0}
    for seconds in (HOUR, DAY):
        shares = popularity.period_shares(NOON + 150, seconds)
        assert sum(shares.values()) * 600 - (600 - 150) == pytest.approx(seconds)
