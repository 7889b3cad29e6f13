"""Sleep between claims: until something is due, or a publish says that something is due earlier."""

import asyncio
import math
import time

from retry import subscribing

from ..queues.frontier import WAKE_CHANNEL

LONGEST_SECONDS = 30.0
"""Nobody sleeps longer, whatever was said: a publish can be lost with a connection."""


class Waking:
    """One per fetcher's process: listens for it, and lets it sleep."""

    def __init__(self) -> None:
        self._wakes_at = math.inf
        self._earlier = asyncio.Event()

    def expect(self) -> None:
        """Before a claim: what is heard from now on counts for the sleep that may follow it."""
        self._earlier.clear()
        self._wakes_at = math.inf

    async def sleep(self, seconds: float) -> None:
        """Returns after that time, or as soon as something is due."""
        self._wakes_at = min(self._wakes_at, time.monotonic() + min(seconds, LONGEST_SECONDS))
        self._earlier.clear()
        while (left := self._wakes_at - time.monotonic()) > 0:
            try:
                async with asyncio.timeout(left):
                    await self._earlier.wait()
            except TimeoutError:
                return
            self._earlier.clear()

    def due_in(self, seconds: float) -> None:
        """Something is due in so long: who would sleep beyond that does not."""
        at = time.monotonic() + seconds
        if at < self._wakes_at:
            self._wakes_at = at
            self._earlier.set()

    async def listen_forever(self) -> None:
        """Hears of what is due. Does not return; ends by cancellation."""
        await subscribing.listen_forever(WAKE_CHANNEL, self._hear)

    def _hear(self, data: bytes | None) -> None:
        self.due_in(0 if data is None else int(data) / 1000)  # at once after what was told while nobody listened
