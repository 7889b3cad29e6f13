"""Subscriptions: one is renewed when its server falls silent without closing the connection, and ends when told."""

import asyncio

import pytest

from retry import subscription
from retry.rooms import WaitingClients
from tests.conftest import RedisServers

SILENCE_MS = 600


def test_a_subscription_whose_server_falls_silent_is_renewed(
    redis_servers: RedisServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscription, "SILENCE_SECONDS", 0.05)

    async def scene() -> None:
        subscriptions: asyncio.Queue[bytes | None] = asyncio.Queue()
        listening = asyncio.create_task(subscription.listen_forever("ends", subscriptions.put_nowait))
        try:
            async with asyncio.timeout(20):
                assert await subscriptions.get() is None
                await asyncio.to_thread(redis_servers.state.client.client_pause, SILENCE_MS)
                assert await subscriptions.get() is None
        finally:
            listening.cancel()
            await asyncio.wait([listening])

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


def test_the_watched_contents_are_subscribed_to_again_after_a_lost_connection(redis_servers: RedisServers) -> None:
    def subscribed() -> set[bytes | str]:
        return set(redis_servers.cache.client.pubsub_channels("retry:content:*"))

    async def until(names: set[bytes | str]) -> None:
        async with asyncio.timeout(10):
            while subscribed() != names:
                await asyncio.sleep(0.01)

    async def scene() -> None:
        notices = subscription.NoticeListener()
        listening = asyncio.create_task(notices.listen_forever(WaitingClients(None, notices)))
        try:
            notices.add("a")
            await until({b"retry:content:a"})
            notices.discard("a")
            notices.add("b")
            await until({b"retry:content:b"})
            redis_servers.cache.client.client_kill_filter(_type="pubsub")
            await until(set())
            await until({b"retry:content:b"})
        finally:
            listening.cancel()
            await asyncio.wait([listening])

    asyncio.run(scene())
