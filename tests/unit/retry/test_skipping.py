"""Skipping: work without waiting clients is not done in its turn while other work waits."""

from dataclasses import replace
from unittest.mock import Mock

import pytest
from pytest_django import Settings

from retry import claim_state, claims, responses
from retry.tickets import Ticket
from retry.work import Work
from retry.worker import prepare
from tests.conftest import RedisServers
from tests.support import claim_calls
from tests.support.claim_calls import begin, begun, forget_who_asked, look, queued, start, started, swept


@pytest.fixture(autouse=True)
def _long_lanes(servers: RedisServers) -> None:
    claim_calls.swept_for_long(servers)
    for lane in ("paint.now", "paint.refresh", "paint.warm"):
        claim_calls.make_long(servers, lane)


def unwanted(servers: RedisServers, work: Work, *, refresh: bool = False) -> int:
    """Claims the work, without a request after that; its token."""
    token = begun(work, refresh=refresh).token
    forget_who_asked(servers, work)
    return token


@pytest.mark.parametrize("refresh", [False, True])
def test_work_that_nobody_wants_any_more_is_skipped(refresh: bool, work: Work, servers: RedisServers) -> None:
    token = unwanted(servers, work, refresh=refresh)
    assert started(work, token) == claims.SKIPPED
    found = look(work)
    assert isinstance(found, claim_state.WorkDone)
    assert found.outcome == "skipped"
    assert not servers.state.client.exists(f"retry:claim:{work.key}", "retry:claims", "retry:leases")
    assert queued(servers, "paint.now") == queued(servers, "paint.refresh") == set()


def test_skipped_work_is_told_of_like_any_end(work: Work, servers: RedisServers) -> None:
    with servers.state.client.pubsub() as subscription:  # type: ignore[no-untyped-call]
        subscription.subscribe(claims.FINISHED_CHANNEL)
        started(work, unwanted(servers, work))
        messages = [subscription.get_message(timeout=1) for _ in range(3)]
    assert [m["data"] for m in messages if m and m["type"] == "message"] == [b"skipped paint:a:1"]


def test_the_worker_of_skipped_work_prepares_nothing(work: Work, servers: RedisServers) -> None:
    preparer = Mock(return_value={})
    prepare(work.key, unwanted(servers, work), preparer)
    preparer.assert_not_called()


@pytest.mark.parametrize("refresh", [False, True])
def test_who_asks_for_skipped_work_begins_it_anew(refresh: bool, work: Work, servers: RedisServers) -> None:
    token = unwanted(servers, work)
    started(work, token)
    again = begun(work, refresh=refresh).token
    assert again > token
    assert start(work, again)


def test_other_copies_of_skipped_work_do_nothing(work: Work, servers: RedisServers) -> None:
    token = unwanted(servers, work)
    assert started(work, token, "nonce") == claims.SKIPPED
    assert started(work, token, "nonce") == 0
    assert started(work, token, "other") == 0


def test_a_client_that_waits_keeps_its_work_wanted(work: Work, servers: RedisServers) -> None:
    token = unwanted(servers, work)
    look(work)
    assert start(work, token)


def test_who_looks_after_its_status_is_told_to_come_again_in_time(work: Work, settings: Settings) -> None:
    ticket = Ticket("/a", retry_after=0, content_key="a", work_key=work.key, issued_at=0)
    reply = responses.accepted_reply(ticket, wait_seconds=500)
    assert int(reply.headers["Retry-After"]) < settings.RETRY_SKIP_SECONDS


@pytest.mark.parametrize("refresh", [False, True])
def test_a_request_keeps_claimed_work_wanted(refresh: bool, work: Work, servers: RedisServers) -> None:
    token = unwanted(servers, work)
    begin(work, refresh=refresh)
    assert start(work, token)


def test_a_short_lane_skips_nothing(work: Work, servers: RedisServers) -> None:
    servers.state.client.set("retry:duration:paint.now", 10)
    assert start(work, unwanted(servers, work))


def test_a_long_lane_is_one_whose_workers_need_long_for_it(work: Work, servers: RedisServers) -> None:
    servers.state.client.set("retry:duration:paint.now", 4001)
    tokens = {}
    for number in range(5):  # 5 × 4.001 s ÷ 2 workers: above 10 s
        other = replace(work, key=f"paint:b:{number}")
        tokens[other] = unwanted(servers, other)
    assert [started(other, token) for other, token in tokens.items()] == [claims.SKIPPED] + 4 * [claims.STARTED]


def test_pre_warming_is_not_skipped(work: Work, servers: RedisServers) -> None:
    assert start(work, unwanted(servers, replace(work, lane="paint.warm")))


def test_skipping_can_be_switched_off(work: Work, servers: RedisServers, settings: Settings) -> None:
    settings.RETRY_SKIP_SECONDS = 0
    assert start(work, unwanted(servers, work))


def test_nothing_is_skipped_after_an_outage_before_those_who_wait_could_ask(work: Work, servers: RedisServers) -> None:
    token = unwanted(servers, work)
    servers.state.client.delete(claims.SWEPT_KEY)
    swept()  # the first pass after the outage
    assert start(work, token)


def test_nothing_is_skipped_while_nobody_sweeps(work: Work, servers: RedisServers) -> None:
    token = unwanted(servers, work)
    servers.state.client.delete(claims.SWEPT_KEY)
    assert start(work, token)


def test_passes_of_the_sweeper_that_follow_one_another_count_from_the_first(servers: RedisServers) -> None:
    swept()
    assert servers.state.client.get(claims.SWEPT_KEY) == str(claim_calls.LONG_AGO).encode()
    assert 5 < servers.state.client.ttl(claims.SWEPT_KEY) <= 10


def test_work_that_lost_its_worker_is_skipped_when_nobody_waits_for_it(work: Work, servers: RedisServers) -> None:
    claim_calls.running(work)
    claim_calls.make_due(servers, work)
    [(_, _, again, _, _)] = swept()
    forget_who_asked(servers, work)
    assert started(work, int(again)) == claims.SKIPPED


def test_looking_still_answers_when_the_server_takes_no_writes(work: Work, servers: RedisServers) -> None:
    unwanted(servers, work)
    servers.state.client.config_set("maxmemory", "1")
    try:
        assert isinstance(look(work), claim_state.ClaimTaken)
    finally:
        servers.state.client.config_set("maxmemory", "0")
