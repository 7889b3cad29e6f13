"""Sleep between claims: until something is due, or a publish says that something is due earlier."""

import asyncio
import logging
import time

from redis.exceptions import RedisError

from retry.connections import async_client

from .frontier import WAKE_CHANNEL

LONGEST_SECONDS = 30.0
"""Nobody sleeps longer, whatever was said: a publish can be lost with a connection."""
SILENCE_SECONDS = 5.0
AGAIN_SECONDS = 0.2

_log = logging.getLogger("tarry.fetching")


class Waking:
    """One per fetcher's process: listens for it, and lets it sleep."""

    def __init__(self) -> None:
        self._wakes_at = 0.0
        self._earlier = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        """Returns after that time, or as soon as something is due."""
        self._earlier.clear()
        self._wakes_at = time.monotonic() + min(seconds, LONGEST_SECONDS)
        while (left := self._wakes_at - time.monotonic()) > 0:
            try:
                await asyncio.wait_for(self._earlier.wait(), left)
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
        while True:
            try:
                await self._listen()
            except (RedisError, OSError) as error:
                _log.warning("subscription lost", extra={"error": str(error)})
            await asyncio.sleep(AGAIN_SECONDS)

    async def _listen(self) -> None:
        client = async_client("state")
        try:
            async with client.pubsub() as subscription:
                await subscription.subscribe(WAKE_CHANNEL)
                asked = False
                while True:
                    message = await subscription.get_message(timeout=SILENCE_SECONDS)
                    if message is None and asked:
                        raise RedisError("no answer to a ping")  # a peer that is gone without a word
                    if message is None:
                        await subscription.ping()
                    asked = message is None
                    self._take(message)
        finally:
            await client.aclose()

    def _take(self, message: "dict[str, object] | None") -> None:
        kind = message["type"] if message else None
        if kind == "subscribe":
            self.due_in(0)  # what was told while nobody listened
        elif message and kind == "message":
            data = message["data"]
            assert isinstance(data, bytes)
            self.due_in(int(data) / 1000)
