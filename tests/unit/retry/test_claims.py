"""Claims against a real Redis: each script's promise, one by one."""

import time
from dataclasses import replace
from math import ceil

import pytest
from pytest_django import Settings

from retry import claim_state, claims, stores
from retry.work import Work
from tests.conftest import RedisServers
from tests.support.claim_calls import begin, begun, fail, failure, finish, look, make_due, running, start, swept

pytestmark = pytest.mark.usefixtures("servers")
ROUNDED_SECONDS = 0.005
"""Redis cuts off milliseconds where a time is written and where it is compared, and luck is not quite 1."""


def test_only_the_first_request_gets_the_claim(work: Work) -> None:
    first = begun(work)
    second = begin(work)
    assert isinstance(second, claim_state.ClaimTaken)
    assert second.token == first.token


def test_looking_claims_nothing(work: Work) -> None:
    assert look(work) == claim_state.WorkUnknown()
    assert look(work) == claim_state.WorkUnknown()


def test_only_one_copy_of_the_work_starts(work: Work) -> None:
    token = begun(work).token
    assert start(work, token)
    assert not start(work, token)


def test_a_copy_whose_reply_was_lost_may_ask_again(work: Work) -> None:
    token = begun(work).token
    assert start(work, token, "nonce")
    assert start(work, token, "nonce")
    assert not start(work, token, "other")


def test_a_wrong_token_starts_nothing(work: Work) -> None:
    assert not start(work, begun(work).token - 1)


def test_a_finished_claim_leaves_a_done_mark_that_blocks_another_preparation(work: Work) -> None:
    token = running(work)
    assert finish(work, token)
    assert isinstance(begin(work), claim_state.WorkDone)
    assert isinstance(look(work), claim_state.WorkDone)


def test_stale_content_may_be_refreshed_while_the_done_mark_stands(work: Work) -> None:
    token = running(work)
    finish(work, token)
    assert isinstance(begin(work, refresh=True), claim_state.ClaimBegun)


def test_finishing_twice_is_the_same_as_once(work: Work) -> None:
    token = running(work)
    assert finish(work, token)
    assert finish(work, token)


def test_finishing_publishes_the_work_key_once(work: Work, servers: RedisServers) -> None:
    with servers.state.client.pubsub() as subscription:  # type: ignore[no-untyped-call]
        subscription.subscribe(claims.FINISHED_CHANNEL)
        token = running(work)
        finish(work, token)
        messages = [subscription.get_message(timeout=1) for _ in range(3)]
    assert [m["data"] for m in messages if m and m["type"] == "message"] == [b"stored paint:a:1"]


def test_finishing_heals_a_claim_that_was_lost_with_the_data(work: Work, servers: RedisServers) -> None:
    token = begun(work).token
    servers.state.client.flushall()
    assert finish(work, token)
    assert isinstance(look(work), claim_state.WorkDone)


def test_tokens_grow_even_when_the_data_is_lost(work: Work, servers: RedisServers) -> None:
    first = begun(work).token
    servers.state.client.flushall()
    assert begun(work).token > first


def test_tokens_grow_past_a_clock_that_was_set_back(work: Work, servers: RedisServers) -> None:
    future = int(time.time() * 1_000_000) + 3_600_000_000
    servers.state.client.set("retry:token", future)
    assert begun(work).token == future + 1


def test_a_failure_record_is_in_force_until_its_time(work: Work) -> None:
    token = running(work)
    began = time.monotonic()
    fail(work, token)
    found = begin(work)
    assert isinstance(found, claim_state.WorkFailed)
    assert (found.status, found.detail) == (502, "No.")
    assert found.wait_seconds <= 2 < found.wait_seconds + time.monotonic() - began + ROUNDED_SECONDS


def test_back_off_doubles_with_every_failure(work: Work, servers: RedisServers) -> None:
    waits = []
    for _ in range(4):
        token = running(work)
        fail(work, token)
        waits.append(ceil(failure(work).wait_seconds))
        servers.state.client.hset("retry:failure:paint:a:1", "until", 0)
    assert waits == [2, 4, 8, 16]


def test_back_off_has_a_maximum_and_a_minimum(work: Work, servers: RedisServers) -> None:
    token = begun(work).token
    servers.state.client.hset("retry:failure:paint:a:1", "count", 60)
    fail(work, token)
    assert 590 < failure(work).wait_seconds <= 600
    other, began = replace(work, key="paint:a:2"), time.monotonic()
    fail(other, begun(other).token, luck=0.0)
    found = failure(other)
    assert found.wait_seconds <= 1 < found.wait_seconds + time.monotonic() - began + ROUNDED_SECONDS


def test_a_preparer_can_set_the_wait_itself(work: Work) -> None:
    fail(work, begun(work).token, retry_seconds=30)
    assert 29 < failure(work).wait_seconds <= 30


def test_success_forgets_the_failures(work: Work, servers: RedisServers) -> None:
    fail(work, begun(work).token)
    servers.state.client.hset("retry:failure:paint:a:1", "until", 0)
    token = running(work)
    finish(work, token)
    assert not servers.state.client.exists("retry:failure:paint:a:1")


def test_a_full_lane_takes_no_more_and_says_how_long(work: Work, settings: Settings) -> None:
    settings.RETRY_LANES = {"paint.now": {"limit": 3, "workers": 2}, "paint.refresh": {"limit": 3, "workers": 1}}
    for number in range(3):
        begun(replace(work, key=f"paint:a:{number}"))
    found = begin(replace(work, key="paint:a:9"))
    assert found == claim_state.LaneFull(wait_seconds=2.5)  # 3 × 1 s ÷ 2 workers, and its own second


def test_the_expected_wait_follows_recorded_durations(work: Work) -> None:
    token = running(work)
    finish(work, token, seconds=4)
    assert begun(replace(work, key="paint:a:2")).wait_seconds == 4
    assert begun(replace(work, key="paint:a:3")).wait_seconds == 6  # one of 4 s ahead, two workers, and its own 4 s


def test_running_work_no_longer_counts_as_backlog(work: Work, servers: RedisServers) -> None:
    token = begun(work).token
    assert servers.state.client.zcard("retry:queued:paint.now") == 1
    start(work, token)
    assert servers.state.client.zcard("retry:queued:paint.now") == 0


def test_an_interactive_request_promotes_work_that_waits_in_a_slower_lane(work: Work, servers: RedisServers) -> None:
    token = begun(work, refresh=True).token
    found = begin(work)
    assert isinstance(found, claim_state.ClaimPromoted)
    assert found.token == token
    assert servers.state.client.zcard("retry:queued:paint.refresh") == 0
    assert servers.state.client.zcard("retry:queued:paint.now") == 1
    assert isinstance(begin(work), claim_state.ClaimTaken)


def test_a_claim_whose_message_seems_lost_is_handed_over_again_by_who_asks(work: Work, servers: RedisServers) -> None:
    token = begun(work).token
    servers.state.client.hset("retry:claim:paint:a:1", "expected", 1)
    assert isinstance(begin(work, refresh=True), claim_state.ClaimTaken)
    found = begin(work)
    assert isinstance(found, claim_state.ClaimPromoted)
    assert found.token == token
    assert isinstance(begin(work), claim_state.ClaimTaken)


def test_work_whose_lane_holds_a_message_for_everything_is_not_published_again(
    work: Work, servers: RedisServers
) -> None:
    begun(work)
    servers.state.client.rpush("paint.now", "a message")
    make_due(servers, work)
    assert swept() == []


def test_lapsed_leases_come_before_all_that_is_queued(work: Work, servers: RedisServers) -> None:
    for number in range(5):
        other = replace(work, key=f"paint:b:{number}")
        begun(other)
        make_due(servers, other)
    running(work)
    make_due(servers, work)
    assert swept()[0][1] == b"paint:a:1"


def test_an_abandoned_claim_leaves_nothing_behind(work: Work, servers: RedisServers) -> None:
    token = begun(work).token
    assert stores.execute_call(claims.abandon_call(work.key, token)) == 1
    assert look(work) == claim_state.WorkUnknown()
    assert servers.state.client.keys("retry:*") == [b"retry:token"]


def test_running_work_cannot_be_abandoned(work: Work) -> None:
    token = running(work)
    assert stores.execute_call(claims.abandon_call(work.key, token)) == 0


def test_work_that_waits_too_long_is_published_again_with_the_same_token(work: Work, servers: RedisServers) -> None:
    token = begun(work).token
    assert swept() == []
    make_due(servers, work)
    [(what, key, again, lane, spec)] = swept()
    assert (what, key, int(again), lane) == (b"again", b"paint:a:1", token, b"paint.now")
    assert b'"tests.paint"' in spec
    assert swept() == []


def test_a_lapsed_lease_is_queued_again_with_a_newer_token(work: Work, servers: RedisServers) -> None:
    token = running(work)
    make_due(servers, work)
    [(what, _, again, _, _)] = swept()
    assert what == b"again"
    assert int(again) > token
    assert not finish(work, token)
    assert start(work, int(again))


def test_the_second_lapse_in_a_row_is_handed_back(work: Work, servers: RedisServers) -> None:
    running(work)
    make_due(servers, work)
    [(_, _, again, _, _)] = swept()
    start(work, int(again))
    make_due(servers, work)
    [(what, _, token, _, _)] = swept()
    assert (what, token) == (b"lapsed", again)


def test_a_lease_lapses_in_time_though_the_clock_was_set_back_since(work: Work, servers: RedisServers) -> None:
    state, hour = servers.state.client, 3_600_000
    running(work)
    assert swept() == []
    state.zincrby("retry:leases", hour, work.key)
    state.incrby("retry:clock", hour)
    assert swept() == []
    state.zincrby("retry:leases", -60_000, work.key)
    assert [what for what, *_ in swept()] == [b"again"]


def test_a_mark_stands_no_longer_though_the_clock_was_set_back_since(work: Work, servers: RedisServers) -> None:
    state, hour = servers.state.client, 3_600_000
    state.set("mark", 1, px=hour + 10_000)
    state.set("new mark", 1, px=60_000)
    assert swept() == []
    state.incrby("retry:clock", hour)
    assert swept() == []
    assert 0 < state.pttl("mark") <= 10_000
    assert 50_000 < state.pttl("new mark") <= 60_000


def test_a_renewed_lease_is_not_swept(work: Work, servers: RedisServers) -> None:
    token = running(work)
    make_due(servers, work)
    assert stores.execute_call(claims.renew_call(work.key, token)) == 1
    assert swept() == []


def test_a_lost_claim_cannot_be_renewed(work: Work) -> None:
    assert stores.execute_call(claims.renew_call(work.key, begun(work).token)) == 0  # not running


def test_durations_are_forgotten_with_the_kinds_that_had_them(work: Work, servers: RedisServers) -> None:
    token = running(work)
    finish(work, token, seconds=4)
    kept = [servers.state.client.ttl(f"retry:duration:{name}") for name in (work.kind, work.lane)]
    assert kept == pytest.approx([30 * 24 * 3600] * 2, abs=60)


def test_work_that_waits_for_its_turn_again_starts_again_with_the_same_token(work: Work, servers: RedisServers) -> None:
    token = running(work, "copy")
    assert stores.execute_call(claims.requeue_call(work.key, token, 30, "copy")) == 1
    waiting = begin(work)
    assert isinstance(waiting, claim_state.ClaimTaken)
    assert 29 < waiting.wait_seconds <= 31
    assert servers.state.client.zcard("retry:leases") == 0
    assert start(work, token)
    assert finish(work, token)


def test_nobody_elses_work_can_be_put_back(work: Work) -> None:
    token = begun(work).token
    assert stores.execute_call(claims.requeue_call(work.key, token, 1, "copy")) == 0
    start(work, token, "copy")
    assert stores.execute_call(claims.requeue_call(work.key, token - 1, 1, "copy")) == 0
    assert stores.execute_call(claims.requeue_call(work.key, token, 1, "another")) == 0
