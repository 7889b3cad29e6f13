"""The ways out of one fetcher: a client for each, opened when it is first needed."""

import asyncio
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from ..addressing import egress
from ..addressing.scopes import scopes
from ..queues import tuning
from ..queues.jobs import Claimed
from ..transport.client import Client
from ..transport.policy import Policy


class Ways:
    """Use it as `async with Ways(policy) as ways`."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._clients: dict[str, Client] = {}
        self._open = AsyncExitStack()
        self._opening = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._open.aclose()

    async def client_for(self, job: Claimed) -> Client:
        """The client that asks by the way out that the job was queued for."""
        if not job.egress and "" in self._clients:
            return self._clients[""]
        way = egress.of_name(tuning.egresses(), job.egress, scopes(job.url).registrable)
        name = "" if way is None else way.name
        async with self._opening:  # many jobs may come at once
            if name not in self._clients:
                source_address, proxy = (None, None) if way is None else (way.source_address, way.proxy)
                client = Client(self._policy, source_address=source_address, proxy=proxy)
                self._clients[name] = await self._open.enter_async_context(client)
        return self._clients[name]
