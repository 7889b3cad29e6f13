"""Promotion: a waiting client has work in a slower lane moved to a faster one."""

from dataclasses import replace
from unittest.mock import Mock

import pytest
from pytest_django import Settings

from retry import claim_state, claims, stores
from retry.decision import Refuse
from retry.deferral import find_answer
from retry.errors import QueueUnavailable
from retry.work import Work
from tests.conftest import RedisServers
from tests.support.claim_calls import begin, begun, finish, make_due, queued, start, swept

pytestmark = pytest.mark.usefixtures("servers")

LANES = ("paint.now", "paint.refresh", "paint.warm")


def warmed(work: Work) -> int:
    """Claims the work in the slowest lane; its token."""
    return begun(replace(work, lane="paint.warm")).token


def test_work_that_waits_to_be_pre_warmed_is_promoted_to_refresh_what_is_stale(
    work: Work, servers: RedisServers
) -> None:
    token = warmed(work)
    found = begin(work, refresh=True)
    assert isinstance(found, claim_state.ClaimPromoted)
    assert found.token == token
    assert [queued(servers, lane) for lane in LANES] == [set(), {work.key}, set()]


def test_work_is_never_moved_to_a_slower_lane(work: Work, servers: RedisServers) -> None:
    begun(work)
    assert isinstance(begin(work, refresh=True), claim_state.ClaimTaken)
    assert isinstance(begin(replace(work, lane="paint.warm")), claim_state.ClaimTaken)
    assert [queued(servers, lane) for lane in LANES] == [{work.key}, set(), set()]


def test_running_work_is_not_promoted(work: Work) -> None:
    start(work, begun(work, refresh=True).token)
    assert isinstance(begin(work), claim_state.ClaimTaken)


def test_a_full_lane_takes_no_promoted_work(work: Work, servers: RedisServers, settings: Settings) -> None:
    settings.RETRY_LANES = {lane: {"limit": 1, "workers": 1} for lane in LANES}
    begun(replace(work, key="paint:a:2"))
    begun(work, refresh=True)
    assert isinstance(begin(work), claim_state.ClaimTaken)
    assert queued(servers, "paint.refresh") == {work.key}


def test_promoted_work_is_expected_as_soon_as_its_new_lane_allows(work: Work, servers: RedisServers) -> None:
    servers.state.client.set("retry:duration:paint.refresh", 60_000)
    for number in range(2, 5):
        begun(replace(work, key=f"paint:a:{number}"), refresh=True)
    assert begun(work, refresh=True).wait_seconds == 3 * 60 + 1
    found = begin(work)
    assert isinstance(found, claim_state.ClaimPromoted)
    assert found.wait_seconds == 1


@pytest.mark.parametrize("first", ["promoted", "slower"])
def test_both_copies_of_promoted_work_leave_nothing_behind(first: str, work: Work, servers: RedisServers) -> None:
    token = begun(work, refresh=True).token
    begin(work)
    assert start(work, token, first)
    assert not start(work, token, "the other copy")
    assert finish(work, token)
    assert not start(work, token, "the other copy")
    durations = [f"retry:duration:{name}" for name in (work.kind, "paint.now")]
    left = ["retry:token", "retry:started", f"retry:done:{work.key}", *durations]
    assert sorted(servers.state.client.keys("retry:*")) == sorted(name.encode() for name in left)


def test_promoted_work_whose_copy_was_lost_is_published_into_its_new_lane(work: Work, servers: RedisServers) -> None:
    token = begun(work, refresh=True).token
    begin(work)  # its message is never sent
    make_due(servers, work)
    [(what, _, again, lane, _)] = swept()
    assert (what, int(again), lane) == (b"again", token, b"paint.now")


def test_promoted_work_is_looked_after_as_soon_as_its_new_lane_demands(work: Work, servers: RedisServers) -> None:
    servers.state.client.set(f"retry:duration:{work.kind}", 1_000_000)
    begun(work, refresh=True)
    late = servers.state.client.zscore("retry:claims", work.key) or 0
    servers.state.client.set(f"retry:duration:{work.kind}", 10)
    begin(work)
    soon = servers.state.client.zscore("retry:claims", work.key) or 0
    assert 0 < soon < late - 50_000


def test_promoted_work_whose_copy_cannot_be_published_keeps_its_claim(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = begun(work, refresh=True).token
    monkeypatch.setattr("retry.lanes.publish_work", Mock(side_effect=QueueUnavailable("refused")))
    assert find_answer("tile:a:1", work, version=0) == Refuse(1, "state unreachable")
    assert start(work, token)  # by the copy that is in its first lane


def test_a_claim_that_is_taken_back_after_its_promotion_counts_nowhere(work: Work, servers: RedisServers) -> None:
    token = begun(work, refresh=True).token
    begin(work)
    assert stores.execute_call(claims.abandon_call(work.key, token)) == 1
    assert [queued(servers, lane) for lane in LANES] == [set(), set(), set()]
    assert not start(work, token)
