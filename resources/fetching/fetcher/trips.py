"""Trips to Redis that many coroutines share: while some are under way, what is asked gathers for the next."""

import asyncio
from collections.abc import Callable
from typing import TypeVar, cast

import redis.asyncio

from retry import connections
from retry.connections import Clients, Steps
from retry.errors import StoreUnavailable
from retry.scripts import Call, Reply, Server

Result = TypeVar("Result")

MOST_AT_ONCE = 200
MOST_UNDER_WAY = 2
"""To one server: it has something to do while the replies of the other trip are read."""

AGAIN_SECONDS = 0.5
PATIENCE_SECONDS = 10.0
"""How long what has been paid for is tried to be told: shorter than a lease."""


class Trips:
    """For one event loop. Carries out steps side by side, each at its own pace."""

    def __init__(self, clients: Clients) -> None:
        self._lines = {server: _Line(client, server) for server, client in clients.items()}

    async def run(self, steps: Steps[Result]) -> Result:
        """What the steps come to. Raises StoreUnavailable; a server may still carry them out later."""
        reply: Reply = None
        while True:
            try:
                call = steps.send(reply)
            except StopIteration as end:
                return cast(Result, end.value)
            reply = await self._lines[call.server].ask(call)

    async def insist(self, steps: Callable[[], Steps[Result]]) -> Result:
        """The same, tried again for several seconds. For steps that do no harm when they are carried out twice."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + PATIENCE_SECONDS
        while True:
            try:
                return await self.run(steps())
            except StoreUnavailable:
                if loop.time() > deadline:
                    raise
            await asyncio.sleep(AGAIN_SECONDS)


class _Line:
    """What waits for a trip to one server."""

    def __init__(self, client: "redis.asyncio.Redis", server: Server) -> None:
        self._client = client
        self._server = server
        self._waiting: list[tuple[Call, asyncio.Future[Reply]]] = []
        self._under_way: set[asyncio.Task[None]] = set()

    def ask(self, call: Call) -> "asyncio.Future[Reply]":
        """The reply, or StoreUnavailable, when it is there."""
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting.append((call, future))
        if len(self._under_way) < MOST_UNDER_WAY:
            trip = asyncio.create_task(self._travel())
            self._under_way.add(trip)
        return future

    async def _travel(self) -> None:
        try:
            while self._waiting:
                taken, self._waiting = self._waiting[:MOST_AT_ONCE], self._waiting[MOST_AT_ONCE:]
                await self._carry_out(taken)
        finally:  # at once: whoever asks from now on must not wait for this one
            self._under_way.discard(cast("asyncio.Task[None]", asyncio.current_task()))

    async def _carry_out(self, taken: list[tuple[Call, "asyncio.Future[Reply]"]]) -> None:
        calls, replies = [call for call, _ in taken], list[Reply]()
        try:
            replies += await connections.execute_all(self._client, self._server, calls)
        except Exception as error:  # noqa: BLE001  told to those who asked
            replies += [error] * len(taken)
        for (_, future), reply in zip(taken, replies, strict=True):
            if future.done():  # who asked is gone
                continue
            if isinstance(reply, Exception):
                future.set_exception(reply)
            else:
                future.set_result(reply)


def asking(call: Call) -> Steps[Reply]:
    """A single call as steps."""
    return (yield call)
