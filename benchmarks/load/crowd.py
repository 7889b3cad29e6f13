"""A crowd: clients that ask main for content, are redirected, and wait at the waiting instance together."""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from itertools import cycle, islice

from tests.support.stack import Stack

from .clients import Client, Visit, connect, follow

ARRIVING_AT_ONCE = 100
ARRIVAL_SECONDS = 60
POLL_SECONDS = 0.005

# No client is sent round a second time, however long it takes the crowd to gather.
PATIENCE = {"DEFAULT_RETRY_TIMEOUT": "100", "PROXY_TIMEOUT": "130"}


class Crowd:
    """`size` clients spread over the paths, each following so many redirects. Leave before a new one comes."""

    def __init__(self, stack: Stack, paths: Sequence[str], size: int, *, redirects: int = 20) -> None:
        self._stack = stack
        self._paths = list(islice(cycle(paths), size))
        self._redirects = redirects
        self._clients: list[Client] = []
        self._on_the_way: list[asyncio.Task[Visit]] = []

    async def gather(self) -> None:
        """Lets them come, some at a time, until all wait. Raises RuntimeError when they do not."""
        for start in range(0, len(self._paths), ARRIVING_AT_ONCE):
            await self._arrive(self._paths[start : start + ARRIVING_AT_ONCE])
        deadline = time.monotonic() + ARRIVAL_SECONDS
        while (waiting := await asyncio.to_thread(self._stack.metric, "tarry_waiting_clients")) != len(self._paths):
            if time.monotonic() > deadline:
                ended = Counter(str(task.result()) for task in self._on_the_way if task.done())
                raise RuntimeError(f"{waiting:,.0f} of {len(self._paths):,} clients wait; ended: {dict(ended)}")
            await asyncio.sleep(0.2)

    async def visits(self) -> list[Visit]:
        """The answers that each of them met, once all are through."""
        return await asyncio.gather(*self._on_the_way)

    def leave(self) -> None:
        for client in self._clients:
            client.close()

    async def _arrive(self, paths: Sequence[str]) -> None:
        clients = await asyncio.gather(*(connect(self._stack.host) for _ in paths))
        self._clients += clients
        visits = [Visit() for _ in paths]
        self._on_the_way += [
            asyncio.create_task(follow(client, path, redirects=self._redirects, visit=visit))
            for client, path, visit in zip(clients, paths, visits, strict=True)
        ]
        deadline = time.monotonic() + ARRIVAL_SECONDS
        while not all(visit.answers or visit.error for visit in visits):
            if time.monotonic() > deadline:
                raise RuntimeError("main does not answer those who arrive")
            await asyncio.sleep(POLL_SECONDS)
