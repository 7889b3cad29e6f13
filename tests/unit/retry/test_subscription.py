"""Subscriptions: one is renewed when its server falls silent without closing the connection, and ends when told."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from pytest_django import Settings

from retry import subscription
from tests.conftest import RedisServers


class Passing:
    """A unix socket before a real server. The first connection that subscribes goes silent once that is confirmed."""

    def __init__(self, server: Path) -> None:
        self._server = server
        self._was_silent = False
        self._connections: set[asyncio.Task[None]] = set()

    async def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.current_task()
        assert connection is not None
        self._connections.add(connection)
        from_server, to_server = await asyncio.open_unix_connection(self._server)
        ways = [
            asyncio.create_task(_pass(reader, to_server)),
            asyncio.create_task(_pass(from_server, writer, self._silences)),
        ]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for end in (to_server, writer):
            end.close()
            await end.wait_closed()
        await asyncio.wait(ways)

    async def wait_until_closed(self) -> None:
        await asyncio.wait(self._connections)

    def _silences(self, data: bytes) -> bool:
        silences, self._was_silent = not self._was_silent, self._was_silent or b"subscribe" in data
        return silences and self._was_silent


async def _pass(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, silences: Callable[[bytes], bool] = lambda _: False
) -> None:
    silent = False
    while data := await reader.read(65536):
        if not silent:
            writer.write(data)
            await writer.drain()
            silent = silences(data)


def test_a_subscription_whose_server_falls_silent_is_renewed(
    redis_servers: RedisServers, settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(subscription, "SILENCE_SECONDS", 0.05)
    settings.REDIS_URL = f"unix://{tmp_path}/state.sock"

    async def scene() -> None:
        subscriptions: asyncio.Queue[bytes | None] = asyncio.Queue()
        passing = Passing(redis_servers.state.socket)
        async with await asyncio.start_unix_server(passing.connect, tmp_path / "state.sock"):
            listening = asyncio.create_task(subscription.listen_forever("ends", subscriptions.put_nowait))
            try:
                async with asyncio.timeout(20):
                    assert [await subscriptions.get(), await subscriptions.get()] == [None, None]
            finally:
                listening.cancel()
                await asyncio.wait([listening])
                await passing.wait_until_closed()

    asyncio.run(scene())


def test_a_subscription_that_is_cancelled_at_any_moment_ends(redis_servers: RedisServers) -> None:
    async def scene() -> None:
        subscribed = asyncio.Event()
        steps = 0
        while not subscribed.is_set():
            listening = asyncio.create_task(subscription.listen_forever("ends", lambda _: subscribed.set()))
            for _ in range(steps):
                await asyncio.sleep(0)
            listening.cancel()
            _, left = await asyncio.wait([listening], timeout=2)
            assert not left, f"cancelled at step {steps}"
            steps += 1

    asyncio.run(scene())
