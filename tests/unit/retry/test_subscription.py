"""Subscriptions: one is renewed when its server falls silent without closing the connection, and ends when told."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from errno import ETIMEDOUT
from typing import Any

import pytest

from retry import subscription
from retry.rooms import WaitingClients
from tests.conftest import RedisServers

SILENCE_MS = 600


@asynccontextmanager
async def subscribed(send: subscription.Sender | None = None) -> AsyncIterator[asyncio.Queue[bytes | None]]:
    """The heard messages of a subscription that stands, in twenty seconds of it. A new one is heard as None."""
    heard: asyncio.Queue[bytes | None] = asyncio.Queue()
    listening = asyncio.create_task(subscription.listen_forever("ends", heard.put_nowait, send=send))
    try:
        async with asyncio.timeout(20):
            assert await heard.get() is None
            yield heard
    finally:
        listening.cancel()
        await asyncio.wait([listening])


def test_a_subscription_whose_server_falls_silent_is_renewed(
    redis_servers: RedisServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscription, "SILENCE_SECONDS", 0.05)

    async def scene() -> None:
        async with subscribed() as heard:
            await asyncio.to_thread(redis_servers.state.client.client_pause, SILENCE_MS)
            assert await heard.get() is None

    asyncio.run(scene())


def test_a_subscription_whose_connection_times_out_is_renewed(redis_servers: RedisServers) -> None:
    async def scene() -> None:
        connections: list[Any] = []

        async def keep(connection: Any) -> None:
            connections.append(connection)

        async with subscribed(keep) as heard:
            connections[0]._reader.set_exception(TimeoutError(ETIMEDOUT, "Connection timed out"))
            assert await heard.get() is None

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


@asynccontextmanager
async def watching() -> AsyncIterator[subscription.NoticeListener]:
    notices = subscription.NoticeListener(3)
    listening = asyncio.create_task(notices.listen_forever(WaitingClients(None, notices)))
    try:
        yield notices
    finally:
        listening.cancel()
        await asyncio.wait([listening])


async def until_watched(servers: RedisServers, *keys: str) -> None:
    """Returns when these contents are subscribed to, and no others."""
    names = {f"retry:stored:3:{key}".encode() for key in keys}
    async with asyncio.timeout(10):
        while set(servers.cache.client.pubsub_channels("retry:stored:*")) != names:
            await asyncio.sleep(0.01)


def test_the_watched_contents_are_subscribed_to_again_after_a_lost_connection(redis_servers: RedisServers) -> None:
    async def scene() -> None:
        async with watching() as notices:
            notices.add("a")
            await until_watched(redis_servers, "a")
            notices.discard("a")
            notices.add("b")
            await until_watched(redis_servers, "b")
            redis_servers.cache.client.client_kill_filter(_type="pubsub")
            await until_watched(redis_servers)
            await until_watched(redis_servers, "b")

    asyncio.run(scene())


def test_a_content_is_watched_until_its_last_room_is_empty(redis_servers: RedisServers) -> None:
    async def scene() -> None:
        async with watching() as notices:
            notices.add("a")
            notices.add("a")
            notices.discard("a")
            notices.add("b")
            await until_watched(redis_servers, "a", "b")
            notices.discard("a")
            notices.add("c")
            await until_watched(redis_servers, "b", "c")

    asyncio.run(scene())


def test_a_content_beyond_the_limit_is_watched_when_another_has_gone(
    redis_servers: RedisServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscription, "MAX_WATCHED", 2)

    async def scene() -> None:
        async with watching() as notices:
            for key in "abcd":
                notices.add(key)
            await until_watched(redis_servers, "a", "b")
            notices.discard("c")
            notices.discard("a")
            await until_watched(redis_servers, "b", "d")

    asyncio.run(scene())
