"""Counting into a real `state`: one step or nothing, bounded, decayed, and asked for cheaply."""

import math
import time
from collections.abc import Mapping, Sequence

import pytest
from pytest_django import Settings

from retry import connections, hits, periods, popularity
from retry.errors import StoreUnavailable
from retry.hits import Hits
from retry.popularity import Hit
from tests.conftest import RedisServers

pytestmark = pytest.mark.usefixtures("servers")
HOUR = 3600.0
LANDMARK = "retry:popular:decays"


def count(
    wishes: Mapping[str, float] = {}, found: Sequence[Hit] = (), *, before: bytes = b"", after: bytes = b""
) -> bool:
    return connections.execute(popularity.counting("here", before, after, found, wishes)) == 1


def keys(kind: str = "tile", most: int = 10, beginning: str = "") -> list[str]:
    return [popular.content_key for popular in popularity.most_popular(kind, most, beginning)]


def pass_time(servers: RedisServers, seconds: float, kind: str = "tile") -> None:
    """Lets the landmark lie so much further back, as if time had passed since."""
    held = servers.state.client.hget(LANDMARK, kind)
    assert held is not None
    landmark, half_life = (float(part) for part in held.split())
    servers.state.client.hset(LANDMARK, kind, f"{landmark - seconds:.6f} {half_life:.17g}")


def hit(answer: str = "hot", group: str = "jams", number: int = 1, *, exists: bool = True) -> Hit:
    return Hit("tile", group, answer, exists, periods.period(time.time(), time.time()), number)


def test_requests_add_up_and_the_most_wanted_come_first() -> None:
    count({"tile:a": 3, "tile:b": 1})
    count({"tile:b": 5})
    assert keys() == ["tile:b", "tile:a"]
    assert popularity.requests("tile:b") == pytest.approx(6, rel=1e-3)
    assert popularity.requests("tile:unknown") == 0


def test_kinds_are_apart_and_keys_are_found_by_their_beginning() -> None:
    count({"tile:a:1": 3, "tile:b:1": 2, "tile:b:2": 1, "prime:7": 9})
    assert keys() == ["tile:a:1", "tile:b:1", "tile:b:2"]
    assert keys(beginning="tile:b:") == ["tile:b:1", "tile:b:2"]
    assert keys(most=1) == ["tile:a:1"]
    assert keys("prime") == ["prime:7"]
    assert keys("nothing") == []


def test_the_end_of_a_long_list_is_found_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(popularity, "WINDOW", 10)
    count({f"tile:a:{number}": 100 + number for number in range(35)} | {"tile:b:1": 1})
    assert keys(beginning="tile:b:") == ["tile:b:1"]


def test_what_is_asked_for_less_is_not_looked_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(popularity, "WINDOW", 10)
    count({f"tile:a:{number}": 100 + number for number in range(15)} | {f"tile:b:{number}": 5 for number in range(50)})
    windows, look = list[int](), popularity._window

    def window(kind: str, start: int) -> list[tuple[str, float]]:
        windows.append(start)
        return look(kind, start)

    monkeypatch.setattr(popularity, "_window", window)
    found = popularity.most_popular("tile", 100, least=10)
    assert [one.content_key for one in found] == [f"tile:a:{number}" for number in reversed(range(15))]
    assert windows == [0, 10]


def test_popularity_halves_with_each_half_life(servers: RedisServers, settings: Settings) -> None:
    settings.POPULARITY_HALF_LIFE_SECONDS = HOUR
    count({"tile:a": 8})
    pass_time(servers, 3 * HOUR)
    assert popularity.requests("tile:a") == pytest.approx(1, rel=1e-3)
    count({"tile:b": 2})
    found = popularity.most_popular("tile", 2)
    assert [one.content_key for one in found] == ["tile:b", "tile:a"]
    assert [one.requests for one in found] == pytest.approx([2, 1], rel=1e-3)


def test_scores_stay_numbers_however_long_the_site_runs(servers: RedisServers, settings: Settings) -> None:
    settings.POPULARITY_HALF_LIFE_SECONDS = HOUR
    for _ in range(40):  # 4,000 half-lives: 2 ** 4000 is no number any more
        count({"tile:old": 1000, "tile:new": 1})
        pass_time(servers, 100 * HOUR)
    count({"tile:new": 1})
    assert popularity.requests("tile:new") == pytest.approx(1, rel=1e-3)
    assert math.isfinite(servers.state.client.zscore("retry:popular:tile", "tile:new") or 0)


def test_what_has_faded_is_forgotten_when_the_landmark_moves(servers: RedisServers, settings: Settings) -> None:
    settings.POPULARITY_HALF_LIFE_SECONDS = HOUR
    count({"tile:old": 1000})
    pass_time(servers, 501 * HOUR)
    count({"tile:new": 1})
    assert keys() == ["tile:new"]


def test_another_half_life_keeps_what_was_counted(servers: RedisServers, settings: Settings) -> None:
    settings.POPULARITY_HALF_LIFE_SECONDS = HOUR
    count({"tile:a": 8})
    pass_time(servers, HOUR)
    settings.POPULARITY_HALF_LIFE_SECONDS = 2 * HOUR
    count({"tile:b": 1})
    assert popularity.requests("tile:a") == pytest.approx(4, rel=1e-3)
    pass_time(servers, 2 * HOUR)
    assert popularity.requests("tile:a") == pytest.approx(2, rel=1e-3)


def test_a_clock_that_is_set_back_makes_nothing_more_popular(servers: RedisServers, settings: Settings) -> None:
    settings.POPULARITY_HALF_LIFE_SECONDS = HOUR
    count({"tile:a": 8})
    pass_time(servers, -1_000_000 * HOUR)
    assert popularity.requests("tile:a") == 8
    count({"tile:a": 1})
    assert popularity.requests("tile:a") == pytest.approx(9, rel=1e-3)
    assert math.isfinite(servers.state.client.zscore("retry:popular:tile", "tile:a") or 0)


def test_the_least_popular_keys_give_way(servers: RedisServers, settings: Settings) -> None:
    settings.POPULARITY_KEYS = 3
    count({f"tile:{number}": number for number in range(1, 8)})
    assert keys() == ["tile:7", "tile:6", "tile:5"]


def test_nothing_is_counted_when_the_position_has_moved_meanwhile() -> None:
    assert count({"tile:a": 1}, [hit()], before=b"", after=b"first")
    assert not count({"tile:a": 1}, [hit()], before=b"", after=b"second")
    assert popularity.requests("tile:a") == pytest.approx(1, rel=1e-3)
    assert hits.totals() == [Hits("tile", "jams", "hot", 1)]
    assert count({"tile:a": 1}, [hit()], before=b"first", after=b"second")
    assert hits.totals() == [Hits("tile", "jams", "hot", 2)]


def test_a_group_is_named_once_something_of_it_exists() -> None:
    count(found=[hit("missing", "invented", exists=False), hit("busy", "jams", exists=False)])
    assert hits.totals() == [Hits("tile", "", "missing", 1), Hits("tile", "", "busy", 1)]
    count(found=[hit("hot"), hit("busy", exists=False)])
    assert {Hits("tile", "jams", "hot", 1), Hits("tile", "jams", "busy", 1)} <= set(hits.totals())


def test_groups_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(popularity, "MOST_GROUPS", 2)
    count(found=[hit(group=group) for group in ("a", "b", "c", "d")])
    assert {(one.group, one.number) for one in hits.totals()} == {("a", 1), ("b", 1), ("", 2)}


def test_popular_is_what_was_asked_for_often_enough(settings: Settings) -> None:
    settings.POPULAR_REQUESTS = 3
    count({"tile:a": 3.1, "tile:b": 2.9})
    assert popularity.is_popular("tile:a")
    assert not popularity.is_popular("tile:b")
    assert not popularity.is_popular("tile:unknown")
    settings.OBSERVE = False
    assert not popularity.is_popular("tile:a")


def test_contents_of_one_address_are_popular_together(settings: Settings) -> None:
    settings.POPULAR_REQUESTS = 3
    count({"tile:a": 3.1})
    assert popularity.is_popular("tile:a@2")


def test_without_the_state_nothing_is_popular(settings: Settings) -> None:
    settings.REDIS_URL = "unix:///nowhere/state.sock"
    assert not popularity.is_popular("tile:a")
    with pytest.raises(StoreUnavailable):
        popularity.most_popular("tile", 3)


def test_any_key_that_content_may_have_is_kept() -> None:
    count({'tile:"é\\ñ’\u2028:1': 2})
    assert keys() == ['tile:"é\\ñ’\u2028:1']
