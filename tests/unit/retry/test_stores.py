"""Connections to Redis."""

import asyncio
from collections.abc import Callable

import pytest
from pytest_django import Settings
from redis.asyncio.connection import Connection

from retry import claims, connections
from retry.errors import StoreUnavailable


@pytest.mark.parametrize(
    "command",
    [
        ("EVALSHA", "0" * 40, 1, "key", 1_800_000_000_123.5, 0.1, 10**15, -1, "Mühle ÷", b"\x00\xff\r\n", ""),
        ("SET", "x", b"0" * 100_000),
        ("CONFIG GET", "maxmemory"),
    ],
)
def test_commands_are_packed_as_redis_py_packs_them(command: tuple[str]) -> None:
    packed = connections.async_client("state").connection_pool.connection_class.pack_command(Connection(), *command)
    assert b"".join(packed) == b"".join(Connection().pack_command(*command))


def ask() -> None:
    connections.execute(claims.looking("anything"))


def ask_asynchronously() -> None:
    async def ask() -> None:
        await connections.execute_all(connections.async_client("state"), "state", [claims.looking("anything")])

    asyncio.run(ask())


@pytest.mark.parametrize("ask", [ask, ask_asynchronously])
def test_a_server_that_fails_is_told_of_once(
    ask: Callable[[], None], settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    settings.REDIS_URL = "unix:///nowhere/state.sock"
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            ask()
    (record,) = [record for record in caplog.records if record.name == "tarry.stores"]
    assert (record.message, record.store) == ("a store failed", "state")  # type: ignore[attr-defined]
    assert "/nowhere/state.sock" in record.error  # type: ignore[attr-defined]
