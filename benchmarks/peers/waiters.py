"""Clients that always wait for cold content: after each answer they ask for the next."""

import asyncio
from itertools import count

from ..load.clients import Client, connect, follow
from .sites import Content, Site

CONTENTS = 40
"""The contents that all clients wait for at a time."""
SHORTEST_SECONDS, LONGEST_SECONDS = 0.3, 5.0
ARRIVING_AT_ONCE, BETWEEN_SECONDS = 100, 0.2
SETTLED_SECONDS = 1.0


class WaitingClients:
    """`size` clients that wait at one site until `leave`."""

    def __init__(self, site: Site, size: int) -> None:
        self._site = site
        self._size = size
        self._clients: list[Client] = []
        self._asking: list[asyncio.Task[None]] = []
        self._series: list[list[Content]] = []
        self.served = self.refused = 0

    async def gather(self) -> None:
        """Returns a while after the last has asked."""
        for _ in range(0, self._size, ARRIVING_AT_ONCE):
            some = min(ARRIVING_AT_ONCE, self._size - len(self._clients))
            clients = await asyncio.gather(*(connect(self._site.host) for _ in range(some)))
            for place, client in enumerate(clients, start=len(self._clients)):
                self._asking.append(asyncio.create_task(self._ask(client, place % CONTENTS)))
            self._clients += clients
            await asyncio.sleep(BETWEEN_SECONDS)
        await asyncio.sleep(SETTLED_SECONDS)

    async def leave(self) -> None:
        for task in self._asking:
            task.cancel()
        await asyncio.gather(*self._asking, return_exceptions=True)
        for client in self._clients:
            client.close()

    async def _ask(self, client: Client, place: int) -> None:
        """Until it is refused, or loses its connection."""
        for turn in count():
            visit = await follow(client, self._content(turn, place).path)
            if visit.status != 200:
                self.refused += 1
                return
            self.served += 1

    def _content(self, turn: int, place: int) -> Content:
        """The duration of a place in a turn is the same for all: 300 ms to 5 s, by its place."""
        if turn == len(self._series):
            step = (LONGEST_SECONDS - SHORTEST_SECONDS) / (CONTENTS - 1)
            self._series.append([self._site.cold(SHORTEST_SECONDS + number * step) for number in range(CONTENTS)])
        return self._series[turn][place]
