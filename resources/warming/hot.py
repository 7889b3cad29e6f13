"""The front's hot cache, filled by asking the front itself, as people would ask it."""

import asyncio
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from django.conf import settings

from retry.front import Front

AT_ONCE = 8
"""So many requests wait for main's answer at a time: clients of its other threads go first."""


def hosts() -> list[str]:
    """The names under which people ask for the site: nginx keeps what it has under each of them."""
    if public := urlsplit(settings.PUBLIC_URL).netloc:
        return [public]
    return [f"{name}:{settings.PORT}" for name in ("127.0.0.1", "localhost")]


class HotCache:
    """Asks for contents once they are in the cache. Does nothing where no front is known."""

    def __init__(self, base: str, names: Sequence[str]) -> None:
        self._base, self._names = base, names
        self._places = asyncio.Semaphore(AT_ONCE)
        self._front: Front | None = None

    async def __aenter__(self) -> Self:
        self._front = Front(self._base) if self._base else None
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._front:
            await self._front.close()

    async def fill(self, addresses: Iterable[str]) -> int:
        """How many of the addresses the front can answer by itself now."""
        asked = [self._ask(name, address) for address in addresses for name in self._names]
        return sum(await asyncio.gather(*asked)) // max(1, len(self._names))

    async def _ask(self, name: str, address: str) -> bool:
        if self._front is None:
            return False
        async with self._places:
            return await self._front.fill(name, address)
