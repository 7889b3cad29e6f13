"""Trips to Redis that many coroutines share: while one is under way, what is asked gathers for the next."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar, cast

from retry import connections
from retry.connections import Clients, Steps
from retry.errors import StoreUnavailable
from retry.scripts import Call, Reply

Result = TypeVar("Result")

MOST_AT_ONCE = 200
AGAIN_SECONDS = 0.5
PATIENCE_SECONDS = 10.0
"""How long what has been paid for is tried to be told: shorter than a lease."""


class Trips:
    """For one event loop. Carries out steps side by side, in one trip for all that ask the same server."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._asked: list[tuple[Steps[Any], asyncio.Future[Any]]] = []
        self._travelling: asyncio.Task[None] | None = None

    async def run(self, steps: Steps[Result]) -> Result:
        """What the steps come to. Raises StoreUnavailable; a server may still carry them out later."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._asked.append((steps, future))
        if self._travelling is None:
            self._travelling = asyncio.create_task(self._travel())
        return cast(Result, await future)

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

    async def _travel(self) -> None:
        try:
            while self._asked:
                taken, self._asked = self._asked[:MOST_AT_ONCE], self._asked[MOST_AT_ONCE:]
                await self._carry_out(taken)
        finally:
            self._travelling = None

    async def _carry_out(self, taken: list[tuple[Steps[Any], asyncio.Future[Any]]]) -> None:
        results: list[Any]
        try:
            results = await connections.run_all(self._clients, [steps for steps, _ in taken])
        except Exception as error:  # noqa: BLE001  a reply that nobody can read: told to those who asked
            results = [error] * len(taken)
        for (_, future), result in zip(taken, results, strict=True):
            if future.done():  # who asked is gone
                continue
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)


def asking(call: Call) -> Steps[Reply]:
    """A single call as steps."""
    return (yield call)
