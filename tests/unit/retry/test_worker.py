"""A worker's side: the state of both servers after a preparation; the sweeper, which publishes again and gives up."""

import json
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from unittest.mock import Mock

import pytest
from pytest_django import Settings

from retry import claim_state, claims, contents, stores, worker
from retry.contents import Prepared
from retry.errors import PreparationError, QueueUnavailable
from retry.scripts import ScriptCall
from retry.work import Work
from retry.worker import prepare, sweep_claims
from tests.conftest import RedisServers
from tests.support.claim_calls import begun, failure, look, make_due

pytestmark = pytest.mark.usefixtures("servers")
TILE = Prepared(b"tile", "image/png", 60, 600)


def begin(work: Work) -> int:
    return begun(work).token


def body(key: str) -> bytes | None:
    content = stores.run_steps(contents.read_content(key))
    return content.body if content else None


def test_all_contents_of_the_work_are_stored_before_it_ends(work: Work) -> None:
    prepare(work.key, begin(work), lambda: {"a": TILE, "b": TILE})
    assert (body("a"), body("b")) == (b"tile", b"tile")
    found = look(work)
    assert isinstance(found, claim_state.WorkDone)
    assert found.outcome == "stored"


def test_a_second_copy_of_the_work_does_nothing(work: Work) -> None:
    token = begin(work)
    prepare(work.key, token, lambda: {"a": TILE})
    prepare(work.key, token, lambda: {"a": Prepared(b"second", "image/png", 60, 600)})
    assert body("a") == b"tile"


def test_a_preparers_own_word_becomes_the_failure_record(work: Work) -> None:
    prepare(work.key, begin(work), Mock(side_effect=PreparationError("No such tile.", status=404, retry_seconds=9)))
    found = failure(work)
    assert (found.status, found.detail, round(found.wait_seconds)) == (404, "No such tile.", 9)


def test_an_unforeseen_error_is_502_and_says_nothing_of_the_inside(work: Work) -> None:
    prepare(work.key, begin(work), Mock(side_effect=ZeroDivisionError("secret")))
    found = failure(work)
    assert (found.status, found.detail) == (502, "The preparation failed.")


def test_an_impossible_freshness_is_a_failure(work: Work) -> None:
    prepare(work.key, begin(work), lambda: {"a": Prepared(b"x", "image/png", float("nan"), 0)})
    assert failure(work)


def test_all_contents_are_stored_by_a_server_that_has_forgotten_the_script(work: Work, servers: RedisServers) -> None:
    token = begin(work)
    servers.cache.client.script_flush()
    prepare(work.key, token, lambda: {str(number): TILE for number in range(64)})
    assert {body(str(number)) for number in range(64)} == {b"tile"}


def test_one_content_that_is_refused_fails_the_work(work: Work, servers: RedisServers) -> None:
    token = begin(work)
    servers.cache.client.set(contents.content_name("b"), "of another type")
    prepare(work.key, token, lambda: {"a": TILE, "b": TILE})
    assert failure(work).detail == "The content could not be stored."


def test_a_store_that_refuses_is_a_failure(work: Work, servers: RedisServers) -> None:
    token = begin(work)
    servers.cache.client.config_set("maxmemory", "1")
    servers.cache.client.config_set("maxmemory-policy", "noeviction")
    try:
        prepare(work.key, token, lambda: {"a": Prepared(b"x" * 4_000_000, "image/png", 60, 60)})
    finally:
        servers.cache.client.config_set("maxmemory", "128mb")
        servers.cache.client.config_set("maxmemory-policy", "allkeys-lru")
    assert failure(work).detail == "The content could not be stored."


def test_a_worker_that_lost_its_claim_neither_ends_it_nor_overwrites_newer_content(
    work: Work, servers: RedisServers
) -> None:
    token = begin(work)

    def pause_past_the_lease() -> Mapping[str, Prepared]:
        servers.state.client.zadd("retry:leases", {work.key: 1}, xx=True)
        stores.execute_call(claims.sweep_call(10))
        newer = int(servers.state.client.hget(f"retry:claim:{work.key}", "token") or 0)
        content = Prepared(b"newer", "image/png", 60, 60)
        stores.execute_call(contents.store_call("a", content, newer, datetime.now(UTC), 0))
        return {"a": TILE}

    prepare(work.key, token, pause_past_the_lease)
    assert body("a") == b"newer"
    assert isinstance(look(work), claim_state.ClaimTaken)


def test_the_lease_is_renewed_before_it_lapses_while_the_preparer_runs(
    work: Work, servers: RedisServers, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    settings.RETRY_LEASE_SECONDS = 3
    left_ms: list[float] = []
    renewed = threading.Event()
    execute = stores.execute_patiently

    def watch(call: ScriptCall) -> object:
        if call.script == "renew":
            seconds, microseconds = servers.state.client.time()
            lapses_at = servers.state.client.zscore("retry:leases", work.key) or 0
            left_ms.append(lapses_at - seconds * 1000 - microseconds / 1000)
        reply = execute(call)
        if call.script == "renew" and reply == 1:
            renewed.set()
        return reply

    monkeypatch.setattr(stores, "execute_patiently", watch)
    prepare(work.key, begin(work), lambda: {"a": TILE} if renewed.wait(10) else {})
    assert body("a") == b"tile"
    assert min(left_ms) > 0


def test_nothing_renews_a_lease_when_its_work_has_ended(work: Work) -> None:
    prepare(work.key, begin(work), lambda: {"a": TILE})
    renewing = [thread for thread in threading.enumerate() if thread.name == "lease"]
    for thread in renewing:
        thread.join(1)
    assert not any(thread.is_alive() for thread in renewing)


def test_the_lease_is_not_renewed_for_ever(work: Work, monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    settings.RETRY_LEASE_SECONDS = 0.03
    settings.RETRY_MAX_PREPARE_SECONDS = 0.1
    ended = threading.Event()
    renew = worker._renew_lease_until

    def watch(*arguments: object) -> None:
        renew(*arguments)  # type: ignore[arg-type]
        ended.set()

    monkeypatch.setattr(worker, "_renew_lease_until", watch)
    prepare(work.key, begin(work), lambda: {"a": TILE} if ended.wait(5) else {})
    assert body("a") == b"tile"


def test_nothing_due_is_nothing_done(work: Work) -> None:
    begin(work)
    assert sweep_claims() == 0


def test_lost_work_is_published_from_what_its_claim_holds(work: Work, servers: RedisServers) -> None:
    token = begin(work)
    make_due(servers, work)
    assert sweep_claims() == 1
    [message] = servers.state.client.lrange("paint.now", 0, -1)
    assert json.loads(message)["headers"]["argsrepr"] == repr([work.key, token, "a", 1])


def test_work_that_loses_its_worker_twice_becomes_a_failure(work: Work, servers: RedisServers) -> None:
    stores.execute_call(claims.start_call(work.key, begin(work), "nonce"))
    make_due(servers, work)
    sweep_claims()
    again = int(servers.state.client.hget(f"retry:claim:{work.key}", "token") or 0)
    stores.execute_call(claims.start_call(work.key, again, "nonce"))
    make_due(servers, work)
    sweep_claims()
    assert failure(work).status == 502
    assert servers.state.client.llen("paint.now") == 1


def test_what_could_not_be_published_stays_due(
    work: Work, servers: RedisServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(work)
    make_due(servers, work)
    monkeypatch.setattr("retry.lanes.publish_work", Mock(side_effect=QueueUnavailable("refused")))
    assert sweep_claims() == 1
    monkeypatch.undo()
    make_due(servers, work)
    assert sweep_claims() == 1
    assert servers.state.client.llen("paint.now") == 1


def test_a_mark_whose_claim_is_gone_is_cleared(work: Work, servers: RedisServers) -> None:
    servers.state.client.zadd("retry:claims", {work.key: 1})
    assert sweep_claims() == 0
    assert servers.state.client.zcard("retry:claims") == 0


def test_what_a_closed_lane_does_not_take_fails_until_it_opens(
    work: Work, servers: RedisServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(work)
    make_due(servers, work)
    refused = QueueUnavailable("The origin is left alone.", retry_seconds=90)
    monkeypatch.setattr("retry.lanes.publish_work", Mock(side_effect=refused))
    sweep_claims()
    found = failure(work)
    assert (found.status, found.detail) == (503, "The origin is left alone.")
    assert 85 < found.wait_seconds <= 90
