"""Clients of a waiting instance, and scenes that they are played in."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import urlsplit

from retry import claims, connections, standings
from retry.instance import Instance
from retry.replies import Reply, Request
from retry.tickets import Ticket, ticket_address
from retry.work import Work

KEY = "tile:a:1"
BACK = "/tiles/a.png"


def begin(work: Work) -> int:
    found = standings.standing(connections.execute(claims.beginning(work, refresh=False)))
    assert isinstance(found, standings.Begun)
    return found.token


def asked(
    work: Work, *, hop: int = 1, expected_in: float = 1, key: str = KEY, wait: float | None = None, **fields: Any
) -> Request:
    now = time.time()
    deadline = None if wait is None else int(now) + wait
    respond_async = fields.pop("respond_async", False)
    ticket = Ticket(BACK, now + expected_in, key, work.key, int(now), hop, deadline, respond_async)
    return Request("GET", urlsplit(ticket_address(ticket, "/retry_after")).query.encode(), "testserver", **fields)


async def present() -> object:
    return await asyncio.Event().wait()


Scene = Callable[[Instance], Coroutine[Any, Any, None]]


def play(scene: Scene) -> None:
    """Runs a scene with a waiting instance that is open."""

    async def run() -> None:
        instance = Instance()
        try:
            async with asyncio.timeout(15):
                await scene(instance)
        finally:
            await instance.close()
        assert instance.waiting.count == 0
        assert not instance.waiting._rooms

    asyncio.run(run())


async def settled(instance: Instance, work: Work, key: str = KEY) -> None:
    """Returns when a look has found the work claimed."""
    while not (room := instance.waiting._rooms.get(work.key, {}).get(key)) or not room.settled:
        await asyncio.sleep(0.005)


def is_back(reply: Reply | None) -> bool:
    return reply is not None and reply.status == 302 and reply.headers["Location"] == BACK
