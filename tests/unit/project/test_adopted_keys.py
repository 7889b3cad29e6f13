"""What earlier versions learnt under names of `state` without a partition."""

from datetime import UTC, datetime

import pytest

from project.release import OLD_KEYS_SECONDS, adopt_learnt_keys
from resources.fetch.frontier import queue
from retry import popularity, stores
from tests.conftest import RedisServers

DAY = f"{datetime.now(UTC):%Y%m%d}"


@pytest.fixture
def old_state(redis_servers: RedisServers) -> RedisServers:
    """The keys of an earlier version, with a domain that has a job."""
    state = redis_servers.state.client
    now = state.time()[0]
    state.hset("retry:popular:decays", "tile", f"{now} 21600")
    state.zadd("retry:popular:tile", {"tile:sea:1": 12})
    state.set("retry:counted:log", b"here")
    state.set("retry:duration:paint:sea", 2500, px=100_000)
    state.hset("retry:claim:tile:sea:1", mapping={"token": 1, "state": "queued"})
    state.hset(
        "fetch:domain:a.example", mapping={"delay": 4000, "floor": 3000, "set_cap": 2, "fast_1": 1, "in_flight": 1}
    )
    state.zadd("fetch:domains", {"a.example": now * 1000})
    state.pfadd(f"feeds:readers:7:{DAY}", "one", "two")
    state.set("feeds:scan-asked", 1)
    return redis_servers


def test_they_are_adopted_without_the_counts_of_jobs_that_are_not(old_state: RedisServers) -> None:
    adopt_learnt_keys()
    assert [one.content_key for one in popularity.most_popular_contents("tile", 1)] == ["tile:sea:1"]
    assert popularity.load_position("log") == b"here"
    assert old_state.state.client.pttl("retry:{0}:duration:paint:sea") > 90_000
    _, domain = stores.run_steps(queue.read_domain_record("a.example"))
    assert domain == {"delay": "4000", "floor": "3000", "set_cap": "2"}
    assert old_state.state.client.pfcount(f"feeds:{{0}}:readers:7:{DAY}") == 2
    assert not old_state.state.client.exists("retry:{0}:claim:tile:sea:1")


def test_the_old_names_end_a_day_later(old_state: RedisServers) -> None:
    adopt_learnt_keys()
    names = ("retry:popular:tile", "retry:claim:tile:sea:1", "fetch:domain:a.example", "fetch:domains")
    assert {old_state.state.client.ttl(name) for name in names} <= {OLD_KEYS_SECONDS, OLD_KEYS_SECONDS - 1}
    assert old_state.state.client.ttl("feeds:scan-asked") == -1


def test_that_is_done_once(old_state: RedisServers) -> None:
    adopt_learnt_keys()
    old_state.state.client.zadd("retry:popular:tile", {"tile:land:1": 99})
    adopt_learnt_keys()
    assert [one.content_key for one in popularity.most_popular_contents("tile", 2)] == ["tile:sea:1"]
