"""Clients of a waiting instance, and scenes that they are played in."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from functools import wraps
from inspect import signature
from typing import Any, Concatenate, ParamSpec
from urllib.parse import urlsplit

from retry.instance import WaitingInstance
from retry.responses import ClientReply, ClientRequest
from retry.tickets import Ticket, ticket_address
from retry.work import Work

from .claim_calls import begun

KEY = "tile:a:1"
BACK = "/tiles/a.png"


def begin(work: Work) -> int:
    return begun(work).token


def asked(
    work: Work, *, hop: int = 1, expected_in: float = 1, key: str = KEY, wait: float | None = None, **fields: Any
) -> ClientRequest:
    now = time.time()
    deadline = None if wait is None else int(now) + wait
    respond_async, page, least = fields.pop("respond_async", False), fields.pop("page", None), fields.pop("least", None)
    earliest = None if least is None else now + least
    ticket = Ticket(BACK, now + expected_in, key, work.key, int(now), hop, deadline, respond_async, page, earliest)
    return ClientRequest("GET", urlsplit(ticket_address(ticket, "/retry_after")).query.encode(), "testserver", **fields)


async def present() -> object:
    return await asyncio.Event().wait()


Fixtures = ParamSpec("Fixtures")


def played(
    scene: Callable[Concatenate[WaitingInstance, Fixtures], Coroutine[Any, Any, None]],
) -> Callable[Fixtures, None]:
    """Makes a test of a scene, whose first argument is a waiting instance that is open. The others are fixtures."""

    async def run(*given: Fixtures.args, **named: Fixtures.kwargs) -> None:
        instance = WaitingInstance()
        try:
            async with asyncio.timeout(15):
                await scene(instance, *given, **named)
        finally:
            await instance.close()
        assert instance.waiting.count == 0
        assert not instance.waiting._rooms

    @wraps(scene)
    def test(*given: Fixtures.args, **named: Fixtures.kwargs) -> None:
        asyncio.run(run(*given, **named))

    fixtures = list(signature(scene).parameters.values())[1:]
    test.__signature__ = signature(scene).replace(parameters=fixtures)  # type: ignore[attr-defined]  # pytest reads it
    return test


async def answered(instance: WaitingInstance, request: ClientRequest) -> ClientReply:
    reply = await instance.answer(request, present)
    assert reply is not None
    return reply


async def joined(
    instance: WaitingInstance, work: Work, clients: int = 1, **fields: Any
) -> list[asyncio.Task[ClientReply]]:
    """Lets clients come, and returns when they wait for claimed work."""
    tasks = [asyncio.create_task(answered(instance, asked(work, **fields))) for _ in range(clients)]
    await settled(instance, work)
    return tasks


async def settled(instance: WaitingInstance, work: Work, key: str = KEY) -> None:
    """Returns when a look has found the work claimed."""
    while not (room := instance.waiting._rooms.get(work.key, {}).get(key)) or not room.settled:
        await asyncio.sleep(0.005)


def is_back(reply: ClientReply) -> bool:
    return reply.status == 302 and reply.headers["Location"] == BACK
