"""The times that a fetcher waits for: when something is due for it, and when a job takes long.

It sleeps until something is due, or a publish says that something is due earlier: all fetchers hear it, a claim in vain
costs little.
"""

import asyncio
import math
import time
from collections.abc import Callable

from retry import subscription

from ..frontier.queue import WAKE_CHANNEL

MAX_SLEEP_SECONDS = 30.0
"""Longest sleep of a fetcher: a publish can be lost with a connection."""


class WakeListener:
    """Listens for due jobs and lets the fetcher sleep. One per process."""

    def __init__(self) -> None:
        self._wakes_at = math.inf
        self._earlier = asyncio.Event()

    def expect(self) -> None:
        """Begins to listen, before a claim: news from now on counts for the sleep that may follow it."""
        self._earlier.clear()
        self._wakes_at = math.inf

    async def sleep(self, seconds: float) -> None:
        """Returns after that time, or as soon as something is due."""
        self._wakes_at = min(self._wakes_at, time.monotonic() + min(seconds, MAX_SLEEP_SECONDS))
        self._earlier.clear()
        while (left := self._wakes_at - time.monotonic()) > 0:
            try:
                async with asyncio.timeout(left):
                    await self._earlier.wait()
            except TimeoutError:
                return
            self._earlier.clear()

    def due_in(self, seconds: float) -> None:
        """Notes that something is due in so long: no sleep lasts beyond that."""
        at = time.monotonic() + seconds
        if at < self._wakes_at:
            self._wakes_at = at
            self._earlier.set()

    async def listen_forever(self) -> None:
        """Listens for due jobs. Does not return; ends by cancellation."""
        await subscription.listen_forever(WAKE_CHANNEL, self._hear)

    def _hear(self, data: bytes | None) -> None:
        self.due_in(0 if data is None else int(data) / 1000)  # None: publishes may have been missed


class LateCalls:
    """Calls functions, each once, so many seconds after it was added, unless withdrawn. For one event loop.

    It has one timer for all: one for each costs more than most jobs do between their claim and their report.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._due: dict[Callable[[], None], float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, call: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        self._due[call] = due_at = loop.time() + self._seconds
        if self._timer is None:
            self._timer = loop.call_at(due_at, self._ring)

    def withdraw(self, call: Callable[[], None]) -> None:
        """Withdraws a function, unless it was called."""
        self._due.pop(call, None)

    def _ring(self) -> None:
        loop, self._timer = asyncio.get_running_loop(), None
        for call, due_at in list(self._due.items()):  # in the order of their times
            if due_at > loop.time():
                self._timer = loop.call_at(due_at, self._ring)
                return
            del self._due[call]
            call()
