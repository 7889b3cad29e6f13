"""Claims against a real Redis: each script's promise, one by one. test_claims_model has them in any order."""

import time
from collections.abc import Callable
from dataclasses import replace
from math import ceil
from unittest.mock import ANY

import pytest
from pytest_django import Settings

from retry import claims, stores
from retry.claim_state import ClaimBegun, ClaimPromoted, ClaimTaken, WorkDone, WorkFailed, WorkUnknown
from retry.conf import StateShare
from retry.work import Work
from retry.worker import sweep_claims
from tests.conftest import RedisServers
from tests.support import claim_calls

pytestmark = pytest.mark.usefixtures("servers")
HOUR_MS = 3_600_000
LANES = ("paint.now", "paint.refresh", "paint.warm")
ROUNDED_SECONDS = 0.005
"""Redis cuts off milliseconds where a time is written and where it is compared, and luck is not quite 1."""


def test_a_copy_whose_reply_was_lost_may_ask_again(work: Work) -> None:
    token = claim_calls.begun(work).token
    started = [claim_calls.start(work, token, nonce) for nonce in ("nonce", "nonce", "other")]
    assert started == [started[0], started[0], 0]
    assert started[0] > token


def test_work_of_the_fetchers_lanes_has_a_key_of_the_first_partition(work: Work) -> None:
    fetched = replace(work, lane="fetch.fast", refresh_lane="fetch.refresh")
    with pytest.raises(ValueError, match=f"must begin with fetch:, not as {work.key}"):
        claims.begin_call(fetched, refresh=False)
    assert claims.begin_call(replace(fetched, key=f"fetch:{work.key}"), refresh=False)


def test_a_done_mark_blocks_another_preparation_but_no_refresh(work: Work) -> None:
    assert claim_calls.finish(work, claim_calls.running(work))
    assert [claim_calls.begin(work), claim_calls.look(work)] == [WorkDone("stored", ANY)] * 2
    assert isinstance(claim_calls.begin(work, refresh=True), ClaimBegun)


def test_each_end_is_published_once(work: Work, servers: RedisServers) -> None:
    skipped = replace(work, key="paint:a:2")
    with servers.state.client.pubsub(ignore_subscribe_messages=True) as subscription:  # type: ignore[no-untyped-call]
        subscription.subscribe(claims.FINISHED_CHANNEL)
        claim_calls.finish(work, claim_calls.running(work))
        claim_calls.started(skipped, unwanted(servers, skipped))
        messages = [subscription.get_message(timeout=1) for _ in range(4)]
    assert [message["data"] for message in messages if message] == [b"stored paint:a:1", b"skipped paint:a:2"]


def test_a_worker_that_was_frozen_for_however_long_ends_nothing(work: Work, servers: RedisServers) -> None:
    frozen = claim_calls.running(work)
    claim_calls.make_due(servers, work)
    [(_, _, token, *_)] = claim_calls.swept()
    assert claim_calls.finish(work, claim_calls.start(work, int(token)))
    servers.state.client.delete(f"retry:{{0}}:done:{work.key}")  # its time is over
    assert not claim_calls.fail(work, frozen)
    assert claim_calls.look(work) == WorkUnknown()


def test_a_done_mark_takes_room_only_while_it_is_in_force(work: Work, servers: RedisServers) -> None:
    claim_calls.finish(work, claim_calls.running(work))
    assert 0 < servers.state.client.pttl(f"retry:{{0}}:done:{work.key}") <= 10_000


def test_a_flood_of_failures_leaves_the_records_that_last_longest(
    work: Work, servers: RedisServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "FAILURE_RECORDS", StateShare(1, record_bytes=1024**3 // 10))
    monkeypatch.setattr(claims, "finish_terms", claims.finish_terms.__wrapped__)  # not as cached before
    works = [replace(work, key=f"paint:a:{number}") for number in range(30)]
    for wait_seconds, each in enumerate(works):
        claim_calls.fail(each, claim_calls.running(each), retry_seconds=60 + wait_seconds)
    last = {f"retry:{{0}}:failure:{each.key}".encode() for each in works[20:]}
    assert set(servers.state.client.keys("retry:{0}:failure:*")) == last
    assert servers.state.client.zcard("retry:{0}:failures") == 10
    assert claim_calls.begin(works[29]) == WorkFailed(502, "No.", ANY)


def test_tokens_grow_though_the_data_is_lost_or_the_clock_is_set_back(work: Work, servers: RedisServers) -> None:
    first = claim_calls.begun(work).token
    servers.state.client.flushall()
    assert claim_calls.begun(work).token > first
    future = int(time.time() * 1_000_000) + 3_600_000_000
    servers.state.client.set("retry:{0}:token", future)
    assert claim_calls.begun(replace(work, key="paint:a:2")).token == future + 1


def test_a_failure_record_is_in_force_until_its_time(work: Work) -> None:
    token, began = claim_calls.running(work), time.monotonic()
    claim_calls.fail(work, token)
    assert claim_calls.begin(work) == WorkFailed(502, "No.", ANY)
    wait_seconds = claim_calls.failure(work).wait_seconds
    assert wait_seconds <= 2 < wait_seconds + time.monotonic() - began + ROUNDED_SECONDS


def test_back_off_doubles_with_every_failure_until_a_success(work: Work, servers: RedisServers) -> None:
    waits = []
    for _ in range(4):
        claim_calls.fail(work, claim_calls.running(work))
        waits.append(ceil(claim_calls.failure(work).wait_seconds))
        servers.state.client.hset("retry:{0}:failure:paint:a:1", "until", 0)
    assert waits == [2, 4, 8, 16]
    claim_calls.finish(work, claim_calls.running(work))
    assert not servers.state.client.exists("retry:{0}:failure:paint:a:1")


def test_back_off_has_a_maximum_and_a_minimum_unless_the_preparer_sets_it(work: Work, servers: RedisServers) -> None:
    token = claim_calls.begun(work).token
    servers.state.client.hset("retry:{0}:failure:paint:a:1", "count", 60)
    claim_calls.fail(work, token)
    assert 590 < claim_calls.failure(work).wait_seconds <= 600
    own_wait = replace(work, key="paint:a:3")
    claim_calls.fail(own_wait, claim_calls.begun(own_wait).token, retry_seconds=30)
    assert 29 < claim_calls.failure(own_wait).wait_seconds <= 30
    other, began = replace(work, key="paint:a:2"), time.monotonic()
    claim_calls.fail(other, claim_calls.begun(other).token, luck=0.0)
    wait_seconds = claim_calls.failure(other).wait_seconds
    assert wait_seconds <= 1 < wait_seconds + time.monotonic() - began + ROUNDED_SECONDS


def test_the_expected_wait_follows_durations_which_are_forgotten_with_their_kinds(
    work: Work, servers: RedisServers
) -> None:
    claim_calls.finish(work, claim_calls.running(work), seconds=4)
    assert claim_calls.begun(replace(work, key="paint:a:2")).wait_seconds == 4
    third = claim_calls.begun(replace(work, key="paint:a:3"))
    assert third.wait_seconds == 6  # one of 4 s ahead, two workers, and its own 4 s
    kept = [servers.state.client.ttl(f"retry:{{0}}:duration:{name}") for name in (work.kind, work.lane)]
    assert kept == pytest.approx([30 * 24 * 3600] * 2, abs=60)


def test_a_request_hands_a_claim_over_again_whose_message_seems_lost(work: Work, servers: RedisServers) -> None:
    token = claim_calls.begun(work).token
    servers.state.client.hset("retry:{0}:claim:paint:a:1", "expected", 1)
    assert claim_calls.begin(work, refresh=True) == ClaimTaken(token, ANY)
    assert claim_calls.begin(work) == ClaimPromoted(token, ANY)
    assert claim_calls.begin(work) == ClaimTaken(token, ANY)


def test_work_whose_lane_holds_a_message_for_all_is_not_published_again(work: Work, servers: RedisServers) -> None:
    claim_calls.begun(work)
    servers.state.client.rpush("paint.now", "a message")
    claim_calls.make_due(servers, work)
    assert sweep_claims() == 0


def test_lapsed_leases_come_before_all_that_is_queued(work: Work, servers: RedisServers) -> None:
    for number in range(5):
        other = replace(work, key=f"paint:b:{number}")
        claim_calls.begun(other)
        claim_calls.make_due(servers, other)
    claim_calls.running(work)
    claim_calls.make_due(servers, work)
    assert claim_calls.swept()[0][1] == b"paint:a:1"


def test_an_abandoned_claim_leaves_nothing_behind(work: Work, servers: RedisServers) -> None:
    assert stores.execute_call(claims.abandon_call(work.key, claim_calls.begun(work).token)) == 1
    assert claim_calls.look(work) == WorkUnknown()
    assert sorted(servers.state.client.keys("retry:*")) == [b"retry:{0}:server", b"retry:{0}:token"]


def test_a_lease_lapses_in_time_though_the_clock_was_set_back_since(work: Work, servers: RedisServers) -> None:
    state = servers.state.client
    claim_calls.running(work)
    assert claim_calls.swept() == []
    state.zincrby("retry:{0}:leases", HOUR_MS, work.key)
    state.incrby("retry:{0}:clock", HOUR_MS)
    assert claim_calls.swept() == []
    state.zincrby("retry:{0}:leases", -60_000, work.key)
    assert [what for what, *_ in claim_calls.swept()] == [b"again"]


def test_a_mark_stands_no_longer_though_the_clock_was_set_back_since(
    servers: RedisServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "SETBACK_KEYS_AT_ONCE", 5)
    state, marks = servers.state.client, [f"mark {number}" for number in range(100)]
    for name in marks:
        state.set(name, 1, px=HOUR_MS + 10_000)
    state.set("new mark", 1, px=60_000)
    assert sweep_claims() == 0
    state.config_resetstat()
    state.incrby("retry:{0}:clock", HOUR_MS)
    assert sweep_claims() == 0
    assert max(state.pttl(name) for name in marks) <= 10_000
    assert 50_000 < state.pttl("new mark") <= 60_000
    assert not state.exists("retry:{0}:setbacks")
    assert "cmdstat_keys" not in state.info("commandstats")  # it would hold up all others


def test_a_pass_that_is_killed_is_continued_after_the_clock_was_set_back(
    servers: RedisServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "SETBACK_KEYS_AT_ONCE", 5)
    state, marks = servers.state.client, [f"mark {number}" for number in range(100)]
    for name in marks:
        state.set(name, 1, px=2 * HOUR_MS + 10_000)
    for _ in range(2):  # set back twice
        claim_calls.swept()
        state.incrby("retry:{0}:clock", HOUR_MS)
        claim_calls.swept()
        assert stores.execute_call(claims.setback_call(0, is_first=True)) == 1
    sweep_claims()
    assert max(state.pttl(name) for name in marks) <= 10_000


@pytest.mark.parametrize("since", ["the lapse was long ago", "its worker has put it back"])
def test_only_lapses_in_a_row_end_work(since: str, work: Work, servers: RedisServers) -> None:
    claim_calls.running(work)
    for _ in range(2):
        claim_calls.make_due(servers, work)
        [(what, _, token, *_)] = claim_calls.swept()
        assert what == b"again"
        started = claim_calls.start(work, int(token), "copy")
        if since == "the lapse was long ago":
            servers.state.client.hset(f"retry:{{0}}:claim:{work.key}", "lapsed", claim_calls.LONG_AGO)
        else:
            assert stores.execute_call(claims.requeue_call(work.key, started, 0, "copy")) == 1
            assert claim_calls.start(work, started, "copy") > started
    servers.state.client.hset(f"retry:{{0}}:claim:{work.key}", "lapsed", claim_calls.now_ms(servers))
    claim_calls.make_due(servers, work)
    assert [what for what, *_ in claim_calls.swept()] == [b"lapsed"]


def test_a_renewed_lease_is_not_swept(work: Work, servers: RedisServers) -> None:
    token = claim_calls.running(work)
    claim_calls.make_due(servers, work)
    assert stores.execute_call(claims.renew_call(work.key, token)) == 1
    assert claim_calls.swept() == []


def test_work_that_waits_for_its_turn_again_starts_again(work: Work, servers: RedisServers) -> None:
    token = claim_calls.running(work, "copy")
    assert stores.execute_call(claims.requeue_call(work.key, token, 30, "copy")) == 1
    waiting = claim_calls.begin(work)
    assert isinstance(waiting, ClaimTaken)
    assert 29 < waiting.wait_seconds <= 31
    assert servers.state.client.zcard("retry:{0}:leases") == 0
    assert claim_calls.finish(work, claim_calls.start(work, token))


def test_a_full_lane_takes_no_promoted_work(work: Work, servers: RedisServers, settings: Settings) -> None:
    settings.RETRY_LANES = {lane: {"limit": 1, "workers": 1} for lane in LANES}
    claim_calls.begun(replace(work, key="paint:a:2"))
    token = claim_calls.begun(work, refresh=True).token
    assert claim_calls.begin(work) == ClaimTaken(token, ANY)
    assert claim_calls.queued(servers, "paint.refresh") == {work.key}


def test_promoted_work_is_expected_as_soon_as_its_new_lane_allows(work: Work, servers: RedisServers) -> None:
    servers.state.client.set("retry:{0}:duration:paint.refresh", 60_000)
    for number in range(2, 5):
        claim_calls.begun(replace(work, key=f"paint:a:{number}"), refresh=True)
    claim = claim_calls.begun(work, refresh=True)
    assert claim.wait_seconds == 3 * 60 + 1
    assert claim_calls.begin(work) == ClaimPromoted(claim.token, wait_seconds=1)


@pytest.mark.parametrize("first", ["promoted", "slower"])
def test_both_copies_of_promoted_work_leave_nothing_behind(first: str, work: Work, servers: RedisServers) -> None:
    token = claim_calls.begun(work, refresh=True).token
    claim_calls.begin(work)
    started = claim_calls.start(work, token, first)
    assert not claim_calls.start(work, token, "the other copy")
    assert claim_calls.finish(work, started)
    assert not claim_calls.start(work, token, "the other copy")
    durations = [f"retry:{{0}}:duration:{name}" for name in (work.kind, "paint.now")]
    left = ["retry:{0}:token", "retry:{0}:server", "retry:{0}:started", f"retry:{{0}}:done:{work.key}", *durations]
    assert sorted(servers.state.client.keys("retry:*")) == sorted(name.encode() for name in left)


def test_promoted_work_is_looked_after_as_soon_as_its_new_lane_demands(work: Work, servers: RedisServers) -> None:
    work = replace(
        work, key=f"fetch:{work.key}", lane="paint.now", refresh_lane="fetch.refresh"
    )  # a publisher knows the turns of its works
    servers.state.client.set(f"retry:{{0}}:duration:{work.kind}", 1_000_000)
    claim_calls.begun(work, refresh=True)
    late = servers.state.client.zscore("retry:{0}:claims", work.key) or 0
    servers.state.client.set(f"retry:{{0}}:duration:{work.kind}", 10)
    claim_calls.begin(work)
    soon = servers.state.client.zscore("retry:{0}:claims", work.key) or 0
    assert 0 < soon < late - 50_000


def unwanted(servers: RedisServers, work: Work, *, refresh: bool = False) -> int:
    """Claims the work in a lane that is long and swept for long, without a request after that; its token."""
    claim_calls.swept_for_long(servers)
    for lane in LANES:
        claim_calls.make_long(servers, lane)
    token = claim_calls.begun(work, refresh=refresh).token
    claim_calls.forget_who_asked(servers, work)
    return token


@pytest.mark.parametrize("refresh", [False, True])
def test_work_without_recent_requests_is_skipped(refresh: bool, work: Work, servers: RedisServers) -> None:
    token = unwanted(servers, work, refresh=refresh)
    found = [claim_calls.started(work, token, nonce).outcome for nonce in ("nonce", "nonce", "other")]
    assert found == [claims.SKIPPED, 0, 0]
    assert claim_calls.look(work) == WorkDone("skipped", ANY)
    assert not servers.state.client.exists(f"retry:{{0}}:claim:{work.key}", "retry:{0}:claims", "retry:{0}:leases")
    assert [claim_calls.queued(servers, lane) for lane in LANES] == [set(), set(), set()]


def test_a_long_lane_is_one_whose_workers_need_long_for_it(work: Work, servers: RedisServers) -> None:
    works = [replace(work, key=f"paint:b:{number}") for number in range(5)]
    tokens = [unwanted(servers, each) for each in works]
    servers.state.client.set("retry:{0}:duration:paint.now", 4001)  # 5 × 4.001 s ÷ 2 workers: above 10 s
    found = [claim_calls.started(*each).outcome for each in zip(works, tokens, strict=True)]
    assert found == [claims.SKIPPED] + 4 * [claims.STARTED]


@pytest.mark.parametrize("reason", ["switched off", "nothing sweeps", "first pass after an outage"])
def test_nothing_is_skipped_before_waiting_clients_could_ask_or_if_it_is_switched_off(
    work: Work, servers: RedisServers, settings: Settings, reason: str
) -> None:
    settings.RETRY_SKIP_SECONDS = 0 if reason == "switched off" else 30
    token = unwanted(servers, work)
    if reason != "switched off":
        servers.state.client.delete(claim_calls.SWEPT_KEY)
    if reason == "first pass after an outage":
        claim_calls.swept()
    assert claim_calls.start(work, token)


def test_passes_of_the_sweeper_that_follow_one_another_count_from_the_first(servers: RedisServers) -> None:
    claim_calls.swept_for_long(servers)
    claim_calls.swept()
    assert servers.state.client.get(claim_calls.SWEPT_KEY) == str(claim_calls.LONG_AGO).encode()
    assert 5 < servers.state.client.ttl(claim_calls.SWEPT_KEY) <= 10


def test_looking_still_answers_when_the_server_takes_no_writes(work: Work, servers: RedisServers) -> None:
    token = claim_calls.begun(work).token
    claim_calls.forget_who_asked(servers, work)
    servers.state.client.config_set("maxmemory", "1")
    try:
        assert claim_calls.look(work) == ClaimTaken(token, ANY)
    finally:
        servers.state.client.config_set("maxmemory", "0")


@pytest.mark.parametrize("ends", [claim_calls.finish, claim_calls.fail])
def test_work_starts_and_ends_while_the_server_is_out_of_memory(
    work: Work, servers: RedisServers, ends: Callable[[Work, int], bool]
) -> None:
    queued = claim_calls.begun(work).token
    servers.state.client.config_set("maxmemory", "1")
    try:
        assert (token := claim_calls.start(work, queued))
        assert ends(work, token)
    finally:
        servers.state.client.config_set("maxmemory", "0")
    assert isinstance(claim_calls.look(work), WorkDone if ends is claim_calls.finish else WorkFailed)
