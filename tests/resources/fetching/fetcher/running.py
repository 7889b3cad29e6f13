"""Fetchers against a real origin, as the engine's tests run them."""

import asyncio
from collections.abc import Awaitable, Callable

from tests.conftest import RedisServers
from tests.hostile.origin import Behaviour, Origin, Peer


def run(test: Callable[[Origin], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with Origin() as origin:
            await test(origin)

    asyncio.run(whole())


def in_turn(*behaviours: Behaviour) -> Behaviour:
    """One after the other, the last for ever."""
    left = list(behaviours)

    async def behave(peer: Peer) -> None:
        await (left.pop(0) if len(left) > 1 else left[0])(peer)

    return behave


def leftovers(servers: RedisServers) -> list[bytes]:
    """What is in the frontier and the claims besides what was learnt and remembered."""
    kept = (b"fetch:domain", b"fetch:token", b"fetch:idle", b"fetch:queued", b"fetch:evidence", b"retry:d")
    kept_too = (b"retry:token", b"retry:started", b"retry:failure", b"fetch:stalls", b"fetch:fetchers")
    return [key for key in servers.state.client.scan_iter() if not key.startswith(kept + kept_too)]
