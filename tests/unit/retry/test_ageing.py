"""Ageing: lanes whose turn does not come have their oldest work done in the lane above."""

import json
from dataclasses import replace

from pytest_django import Settings

from retry import claim_state
from retry.work import Work
from retry.worker import MAX_AGED_PER_LANE, age_lanes
from tests.conftest import RedisServers
from tests.support import claim_calls
from tests.support.claim_calls import LONG_AGO, begin, begun, queued, start

LANES = ("paint.now", "paint.refresh", "paint.warm")


def waiting(servers: RedisServers, work: Work, lane: str, count: int) -> list[Work]:
    """So many works that have waited in the lane for long, the oldest first."""
    works = [replace(work, key=f"{lane}:{number}") for number in range(count)]
    for place, one in enumerate(works):
        begun(replace(one, lane=lane))
        servers.state.client.zadd(f"retry:queued:{lane}", {one.key: LONG_AGO + place})
    return works


def keys(works: list[Work]) -> set[str]:
    return {work.key for work in works}


def test_the_oldest_of_a_lane_that_does_not_get_its_turn_move_up(work: Work, servers: RedisServers) -> None:
    works = waiting(servers, work, "paint.refresh", 8)
    assert age_lanes() == MAX_AGED_PER_LANE
    assert queued(servers, "paint.now") == keys(works[:MAX_AGED_PER_LANE])
    assert queued(servers, "paint.refresh") == keys(works[MAX_AGED_PER_LANE:])
    assert servers.state.client.llen("paint.now") == MAX_AGED_PER_LANE


def test_aged_work_keeps_its_token(work: Work, servers: RedisServers) -> None:
    token = begun(work, refresh=True).token
    servers.state.client.zadd("retry:queued:paint.refresh", {work.key: LONG_AGO})
    age_lanes()
    [message] = servers.state.client.lrange("paint.now", 0, -1)
    assert json.loads(message)["headers"]["argsrepr"] == repr([work.key, token, "a", 1])
    assert start(work, token)
    assert claim_calls.finish(work, token)
    assert [queued(servers, lane) for lane in LANES] == [set(), set(), set()]


def test_no_more_move_before_the_time_has_passed_again(work: Work, servers: RedisServers) -> None:
    waiting(servers, work, "paint.refresh", 8)
    assert age_lanes() == MAX_AGED_PER_LANE
    assert age_lanes() == 0
    servers.state.client.hset("retry:started", "paint.refresh", LONG_AGO)
    assert age_lanes() == 3


def test_a_lane_whose_work_starts_is_left_alone(work: Work, servers: RedisServers) -> None:
    first, *_ = waiting(servers, work, "paint.refresh", 3)
    token = int(servers.state.client.hget(f"retry:claim:{first.key}", "token") or 0)
    start(first, token)
    assert age_lanes() == 0


def test_work_that_came_a_moment_ago_is_left_alone(work: Work, servers: RedisServers) -> None:
    begun(work, refresh=True)
    assert age_lanes() == 0
    assert queued(servers, "paint.refresh") == {work.key}


def test_pre_warming_moves_up_one_lane_at_a_time_and_behind_what_waits_there(work: Work, servers: RedisServers) -> None:
    refreshes = waiting(servers, work, "paint.refresh", MAX_AGED_PER_LANE + 1)
    warm = waiting(servers, work, "paint.warm", 1)
    assert age_lanes() == MAX_AGED_PER_LANE + 1
    assert queued(servers, "paint.now") == keys(refreshes[:MAX_AGED_PER_LANE])
    assert queued(servers, "paint.refresh") == keys([refreshes[-1], *warm])
    servers.state.client.hset("retry:started", "paint.refresh", LONG_AGO)
    assert age_lanes() == 2  # each in its turn


def test_a_full_lane_takes_no_aged_work(work: Work, servers: RedisServers, settings: Settings) -> None:
    settings.RETRY_LANES = {
        "paint.now": {"limit": 2, "workers": 1},
        "paint.refresh": {"limit": 9, "workers": 1, "up": "paint.now"},
    }
    begun(work)
    works = waiting(servers, work, "paint.refresh", 3)
    assert age_lanes() == 1
    assert queued(servers, "paint.now") == {work.key, works[0].key}
    servers.state.client.hset("retry:started", "paint.refresh", LONG_AGO)
    assert age_lanes() == 0
    assert queued(servers, "paint.refresh") == keys(works[1:])


def test_aged_work_is_not_skipped(work: Work, servers: RedisServers) -> None:
    [old] = waiting(servers, work, "paint.refresh", 1)
    age_lanes()
    claim_calls.forget_who_asked(servers, old)
    claim_calls.swept_for_long(servers)
    claim_calls.make_long(servers, "paint.now")
    assert start(old, int(servers.state.client.hget(f"retry:claim:{old.key}", "token") or 0))


def test_aged_work_can_still_be_promoted(work: Work, servers: RedisServers) -> None:
    [warm] = waiting(servers, work, "paint.warm", 1)
    age_lanes()
    assert queued(servers, "paint.refresh") == {warm.key}
    assert isinstance(begin(warm), claim_state.ClaimPromoted)
    assert queued(servers, "paint.now") == {warm.key}


def test_what_stands_in_a_lane_without_a_claim_is_cleared(work: Work, servers: RedisServers) -> None:
    servers.state.client.zadd("retry:queued:paint.refresh", {"gone": LONG_AGO})
    assert age_lanes() == 0
    assert queued(servers, "paint.refresh") == set()


def test_ageing_can_be_switched_off(work: Work, servers: RedisServers, settings: Settings) -> None:
    settings.RETRY_AGE_SECONDS = 0
    waiting(servers, work, "paint.refresh", 1)
    assert age_lanes() == 0
