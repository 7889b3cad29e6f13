"""The front's hot cache, filled by asking the front itself, as people would ask it."""

import asyncio
import logging
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from django.conf import settings

from retry.front import Front

_log = logging.getLogger("tarry.warming")

RESTS = 2
"""So many times as long as an answer took nothing is asked: the rest of main's time is for clients."""

MOST_WANTED = 2000
"""So many addresses wait to be asked for. Those beyond are left to the first who asks."""

SETTLE_SECONDS = 30.0
"""So long the end of a run waits for those that are left, at a front that is slow or away."""


def hosts() -> list[str]:
    """The names under which people ask for the site: nginx keeps what it has under each of them."""
    if public := urlsplit(settings.PUBLIC_URL).netloc:
        return [public]
    return [f"{name}:{settings.PORT}" for name in ("127.0.0.1", "localhost")]


class HotCache:
    """Asks for contents that are in the cache by now, one after the other. Does nothing where no front is known."""

    def __init__(self, base: str, names: Sequence[str]) -> None:
        self.filled = 0
        """So many addresses the front can answer by itself."""
        self._base, self._names = base, names
        self._wanted: asyncio.Queue[str] = asyncio.Queue(MOST_WANTED)
        self._asking: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        if self._base:
            self._asking = asyncio.create_task(self._ask_forever())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._asking:
            self._asking.cancel()
            [ended] = await asyncio.gather(self._asking, return_exceptions=True)
            if isinstance(ended, Exception):
                _log.error("the hot cache was not filled to the end", exc_info=ended)

    def want(self, addresses: Iterable[str]) -> None:
        """Has the addresses asked for, as long as not too many wait."""
        if self._asking:
            with suppress(asyncio.QueueFull):
                for address in addresses:
                    self._wanted.put_nowait(address)

    async def settle(self, stopped: asyncio.Event) -> None:
        """Waits until all that is wanted was asked for, or it is stopped, or that takes too long."""
        if self._asking:
            waits = asyncio.create_task(self._wanted.join()), asyncio.create_task(stopped.wait())
            await asyncio.wait({*waits, self._asking}, timeout=SETTLE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            for each in waits:
                each.cancel()

    async def _ask_forever(self) -> None:
        front = Front(self._base)
        try:
            while True:
                address = await self._wanted.get()
                self.filled += all([await _ask(front, name, address) for name in self._names])
                self._wanted.task_done()
        finally:
            await front.close()


async def _ask(front: Front, name: str, address: str) -> bool:
    began = time.monotonic()
    filled = await front.fill(name, address)
    await asyncio.sleep(RESTS * (time.monotonic() - began))
    return filled
