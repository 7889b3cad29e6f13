"""A worker's side: what stands in both servers when a preparation has ended, well or badly."""

import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

import pytest
from pytest_django import Settings

from retry import claims, connections, contents, preparing, standings
from retry.contents import Prepared
from retry.errors import PreparationError
from retry.preparing import prepare
from retry.scripts import Call
from retry.work import Work
from tests.conftest import RedisServers

pytestmark = pytest.mark.usefixtures("servers")
TILE = Prepared(b"tile", "image/png", 60, 600)


def begin(work: Work) -> int:
    found = standings.standing(connections.execute(claims.beginning(work, refresh=False)))
    assert isinstance(found, standings.Begun)
    return found.token


def look(work: Work) -> standings.Standing:
    return standings.standing(connections.execute(claims.looking(work.key)))


def body(key: str) -> bytes | None:
    content = connections.run(contents.read(key))
    return content.body if content else None


def failing(error: Exception) -> Callable[[], Mapping[str, Prepared]]:
    def preparer() -> Mapping[str, Prepared]:
        raise error

    return preparer


def test_all_contents_of_the_work_are_stored_before_it_ends(work: Work) -> None:
    prepare(work.key, begin(work), lambda: {"a": TILE, "b": TILE})
    assert (body("a"), body("b")) == (b"tile", b"tile")
    found = look(work)
    assert isinstance(found, standings.Done)
    assert found.outcome == "stored"


def test_a_second_copy_of_the_work_does_nothing(work: Work) -> None:
    token = begin(work)
    prepare(work.key, token, lambda: {"a": TILE})
    prepare(work.key, token, lambda: {"a": Prepared(b"second", "image/png", 60, 600)})
    assert body("a") == b"tile"


def test_a_preparers_own_word_becomes_the_failure_record(work: Work) -> None:
    prepare(work.key, begin(work), failing(PreparationError("No such tile.", status=404, retry_seconds=9)))
    found = look(work)
    assert isinstance(found, standings.Failed)
    assert (found.status, found.detail, round(found.wait_seconds)) == (404, "No such tile.", 9)


def test_an_unforeseen_error_is_502_and_says_nothing_of_the_inside(work: Work) -> None:
    prepare(work.key, begin(work), failing(ZeroDivisionError("secret")))
    found = look(work)
    assert isinstance(found, standings.Failed)
    assert (found.status, found.detail) == (502, "The preparation failed.")


def test_an_impossible_freshness_is_a_failure(work: Work) -> None:
    prepare(work.key, begin(work), lambda: {"a": Prepared(b"x", "image/png", float("nan"), 0)})
    assert isinstance(look(work), standings.Failed)


def test_all_contents_are_stored_by_a_server_that_has_forgotten_the_script(work: Work, servers: RedisServers) -> None:
    token = begin(work)
    servers.cache.client.script_flush()
    prepare(work.key, token, lambda: {str(number): TILE for number in range(64)})
    assert {body(str(number)) for number in range(64)} == {b"tile"}


def test_one_content_that_is_refused_fails_the_work(work: Work, servers: RedisServers) -> None:
    token = begin(work)
    servers.cache.client.set(contents.content_name("b"), "of another type")
    prepare(work.key, token, lambda: {"a": TILE, "b": TILE})
    found = look(work)
    assert isinstance(found, standings.Failed)
    assert found.detail == "The content could not be stored."


def test_a_store_that_refuses_is_a_failure(work: Work, servers: RedisServers) -> None:
    token = begin(work)
    servers.cache.client.config_set("maxmemory", "1")
    servers.cache.client.config_set("maxmemory-policy", "noeviction")
    try:
        prepare(work.key, token, lambda: {"a": Prepared(b"x" * 4_000_000, "image/png", 60, 60)})
    finally:
        servers.cache.client.config_set("maxmemory", "128mb")
        servers.cache.client.config_set("maxmemory-policy", "allkeys-lru")
    found = look(work)
    assert isinstance(found, standings.Failed)
    assert found.detail == "The content could not be stored."


def test_a_worker_that_lost_its_claim_neither_ends_it_nor_overwrites_newer_content(
    work: Work, servers: RedisServers
) -> None:
    token = begin(work)

    def pause_past_the_lease() -> Mapping[str, Prepared]:
        servers.state.client.zadd("retry:leases", {work.key: 1}, xx=True)
        connections.execute(claims.sweeping(10))
        newer = int(servers.state.client.hget(f"retry:claim:{work.key}", "token") or 0)
        connections.execute(contents.writing("a", Prepared(b"newer", "image/png", 60, 60), newer, datetime.now(UTC), 0))
        return {"a": TILE}

    prepare(work.key, token, pause_past_the_lease)
    assert body("a") == b"newer"
    assert isinstance(look(work), standings.Claimed)


def test_the_lease_is_renewed_before_it_lapses_while_the_preparer_runs(
    work: Work, servers: RedisServers, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    settings.RETRY_LEASE_SECONDS = 3
    left_ms: list[float] = []
    renewed = threading.Event()
    execute = connections.execute_patiently

    def watch(call: Call) -> object:
        if call.script == "renew":
            seconds, microseconds = servers.state.client.time()
            lapses_at = servers.state.client.zscore("retry:leases", work.key) or 0
            left_ms.append(lapses_at - seconds * 1000 - microseconds / 1000)
        reply = execute(call)
        if call.script == "renew" and reply == 1:
            renewed.set()
        return reply

    monkeypatch.setattr(connections, "execute_patiently", watch)
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
    renew = preparing._renew_until

    def watch(*arguments: object) -> None:
        renew(*arguments)  # type: ignore[arg-type]
        ended.set()

    monkeypatch.setattr(preparing, "_renew_until", watch)
    prepare(work.key, begin(work), lambda: {"a": TILE} if ended.wait(5) else {})
    assert body("a") == b"tile"
