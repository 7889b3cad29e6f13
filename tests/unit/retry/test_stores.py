"""Connections to Redis, and the circuit breaker: fails fast, lets one caller try, closes on success."""

import asyncio
import time
from collections.abc import Callable
from contextlib import aclosing
from typing import cast

import pytest
from pytest_django import Settings
from redis.asyncio import Redis
from redis.asyncio.connection import Connection

from retry import claims, stores
from retry.errors import StoreUnavailable
from retry.servers import CircuitBreaker


@pytest.mark.parametrize(
    "command",
    [
        ("EVALSHA", "0" * 40, 1, "key", 1_800_000_000_123.5, 0.1, 10**15, -1, "Mühle ÷", b"\x00\xff\r\n", ""),
        ("SET", "x", b"0" * 100_000),
        ("CONFIG GET", "maxmemory"),
    ],
)
def test_commands_are_packed_as_redis_py_packs_them(command: tuple[str]) -> None:
    client = cast(Redis, stores.async_client("state"))
    packed = client.connection_pool.connection_class.pack_command(Connection(), *command)
    assert b"".join(packed) == b"".join(Connection().pack_command(*command))


def ask() -> None:
    stores.execute_call(claims.look_call("anything"))


def ask_asynchronously() -> None:
    async def ask() -> None:
        async with aclosing(stores.async_client("state")) as client:
            await stores.execute_all(client, "state", [claims.look_call("anything")])

    asyncio.run(ask())


@pytest.mark.parametrize("ask", [ask, ask_asynchronously])
def test_a_server_that_fails_is_told_of_once(
    ask: Callable[[], None], settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    settings.REDIS_URL = "unix:///nowhere/state.sock"
    for rested_seconds in (0, 0, 2):
        if rested_seconds:  # one call may try again
            stores.BREAKERS["state"].failed(time.monotonic() - rested_seconds)
        with pytest.raises(StoreUnavailable):
            ask()
    (record,) = [record for record in caplog.records if record.name == "tarry.stores"]
    assert (record.message, record.store) == ("a store failed", "state")  # type: ignore[attr-defined]
    assert "/nowhere/state.sock" in record.error  # type: ignore[attr-defined]


def test_a_breaker_fails_fast_for_its_rest_then_lets_one_caller_try_and_closes_on_success() -> None:
    breaker = CircuitBreaker(rest_seconds=1)
    assert all(breaker.allows(now) for now in (0.0, 1.0, 2.0))
    assert breaker.failed(10.0), "it was closed before"
    assert [breaker.allows(now) for now in (10.5, 11.0, 11.0, 11.9)] == [False, True, False, False]
    assert not breaker.failed(11.9)
    breaker.succeeded()
    assert [breaker.allows(11.9), breaker.allows(11.9)] == [True, True]
    assert breaker.failed(12.0)


@pytest.mark.usefixtures("servers")
@pytest.mark.parametrize("ask", [ask, ask_asynchronously])
def test_a_call_that_succeeds_closes_the_breaker_of_its_server(ask: Callable[[], None]) -> None:
    stores.BREAKERS["state"].failed(time.monotonic() - 2)
    ask()
    assert stores.BREAKERS["state"].failed(0), "it was closed"
