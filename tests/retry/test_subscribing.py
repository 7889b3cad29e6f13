"""Subscriptions: one is renewed when its server falls silent without closing the connection, and ends when told."""

import asyncio
from pathlib import Path

import pytest
from pytest_django import Settings

from retry import subscribing
from tests.conftest import RedisServers


class Passing:
    """A unix socket before a real server. The first connection goes silent after its first message."""

    def __init__(self, server: Path) -> None:
        self._server = server
        self._connections = 0

    async def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        silent_after = b"subscribe" if self._connections == 1 else None
        from_server, to_server = await asyncio.open_unix_connection(self._server)
        asked = asyncio.create_task(_pass(reader, to_server, None))
        try:
            await _pass(from_server, writer, silent_after)
        finally:
            asked.cancel()
            to_server.close()
            writer.close()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, silent_after: bytes | None) -> None:
    silent = False
    while data := await reader.read(65536):
        if not silent:
            writer.write(data)
            await writer.drain()
        silent = silent or (silent_after is not None and silent_after in data)


def test_a_subscription_whose_server_falls_silent_is_renewed(
    redis_servers: RedisServers, settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(subscribing, "SILENCE_SECONDS", 0.05)
    settings.REDIS_URL = f"unix://{tmp_path}/state.sock"

    async def scene() -> None:
        subscriptions: asyncio.Queue[bytes | None] = asyncio.Queue()
        passing = Passing(redis_servers.state.socket)
        async with await asyncio.start_unix_server(passing.connect, tmp_path / "state.sock"):
            listening = asyncio.create_task(subscribing.listen_forever("ends", subscriptions.put_nowait))
            try:
                async with asyncio.timeout(3):
                    assert [await subscriptions.get(), await subscriptions.get()] == [None, None]
            finally:
                listening.cancel()
                await asyncio.wait([listening])

    asyncio.run(scene())


def test_a_subscription_that_is_cancelled_at_any_moment_ends(redis_servers: RedisServers) -> None:
    async def scene() -> None:
        subscribed = asyncio.Event()
        steps = 0
        while not subscribed.is_set():
            listening = asyncio.create_task(subscribing.listen_forever("ends", lambda _: subscribed.set()))
            for _ in range(steps):
                await asyncio.sleep(0)
            listening.cancel()
            _, left = await asyncio.wait([listening], timeout=2)
            assert not left, f"cancelled at step {steps}"
            steps += 1

    asyncio.run(scene())
