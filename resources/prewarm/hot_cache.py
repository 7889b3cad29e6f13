"""Fills the front's hot cache by requests like those of clients, and removes useless tiles from the cache.

Useless are the tiles of layers that are gone, or that have no such tile.
"""

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Self
from urllib.parse import urlsplit

from django.conf import settings
from redis.exceptions import RedisError

from retry import contents, stores
from retry.errors import StoreUnavailable
from retry.rooms import FrontClient

from ..tiles import grid, layers, tile_address
from ..tiles.layers import LayerView
from ..tiles.tile_address import Tile

_log = logging.getLogger("tarry.warming")

REST_FACTOR = 2
"""The pause between requests, in multiples of the last answer's time: the rest of main's time is for clients."""

MAX_QUEUED_ADDRESSES = 2000
"""The number of addresses that may wait. Addresses beyond that are left to the first client."""

SETTLE_SECONDS = 30.0
"""The time that the end of a run waits for the remaining addresses, if the front is slow or away."""


def front_hosts() -> list[str]:
    """Returns the host names of the site: nginx caches under each of them."""
    if public := urlsplit(settings.PUBLIC_URL).netloc:
        return [public]
    return [f"{name}:{settings.PORT}" for name in ("127.0.0.1", "localhost")]


class HotCacheFiller:
    """Requests contents that are in the cache by now, one after the other. Does nothing if no front is known."""

    def __init__(self, base: str, names: Sequence[str]) -> None:
        self.filled = 0
        """The number of addresses that the front can now answer by itself."""
        self._base, self._names = base, names
        self._wanted: asyncio.Queue[str] = asyncio.Queue(MAX_QUEUED_ADDRESSES)
        self._asking: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        if self._base:
            self._asking = asyncio.create_task(self._ask_forever())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._asking:
            self._asking.cancel()
            [ended] = await asyncio.gather(self._asking, return_exceptions=True)
            if isinstance(ended, Exception):
                _log.error("the hot cache was not filled to the end", exc_info=ended)

    def want(self, addresses: Iterable[str]) -> None:
        if self._asking:
            with suppress(asyncio.QueueFull):
                for address in filter(None, addresses):
                    self._wanted.put_nowait(address)

    async def settle(self, stopped: asyncio.Event) -> None:
        """Waits until all queued addresses were requested, for SETTLE_SECONDS at most, or until it is stopped."""
        if self._asking:
            waits = asyncio.create_task(self._wanted.join()), asyncio.create_task(stopped.wait())
            await asyncio.wait({*waits, self._asking}, timeout=SETTLE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            for each in waits:
                each.cancel()

    async def _ask_forever(self) -> None:
        front = FrontClient(self._base)
        try:
            while True:
                address = await self._wanted.get()
                self.filled += all([await _request_address(front, name, address) for name in self._names])
                self._wanted.task_done()
        finally:
            await front.close()


async def _request_address(front: FrontClient, name: str, address: str) -> bool:
    began = time.monotonic()
    filled = await front.fill(name, address)
    await asyncio.sleep(REST_FACTOR * (time.monotonic() - began))
    return filled


NAMES_PER_TRIP = 500


def prune_useless_tiles(*, dry_run: bool) -> tuple[int, int]:
    """Removes useless tiles. Returns the numbers of cached and of removed tiles. Raises StoreUnavailable."""
    client = stores.patient_client("cache")
    known = removed = 0
    try:
        names = client.scan_iter(match=contents.content_name(f"{tile_address.TILE_KIND}:*"), count=1000)
        while some := list(islice(names, NAMES_PER_TRIP)):
            known += len(some)
            useless = _useless_names(some)
            removed += len(useless)
            if useless and not dry_run:
                client.unlink(*useless)
    except RedisError as error:
        raise StoreUnavailable(f"cache: {error}") from error
    return known, removed


def _useless_names(names: list[bytes]) -> list[bytes]:
    known = {layer.slug: layer for layer in layers.layers_snapshot()}
    beginning = len(contents.content_name(""))
    return [name for name in names if not _tile_exists(known, Tile.of_key(name.decode()[beginning:]))]


def _tile_exists(known: Mapping[str, LayerView], tile: Tile | None) -> bool:
    layer = known.get(tile.layer) if tile else None
    if tile is None or layer is None or not layer.has_zoom(tile.z) or not layer.has_scale(tile.scale):
        return False
    return grid.bounds_touch_tile(layer.bounds, tile.z, tile.x, tile.y, layer.padding)
