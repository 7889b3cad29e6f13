"""A run: looks at pieces in their order, and has those prepared that lack something, by the protocol's own claims.

So nobody prepares the same at a time, neither another run nor a client's request. Prepares nothing itself: the
workers of the slowest lane do.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from itertools import islice

from django.db import connections as databases

from resources.threads import asked_once, usable_connections
from retry import connections, contents
from retry.claims import FINISHED_CHANNEL
from retry.contents import Content
from retry.errors import StoreUnavailable
from retry.subscribing import listen_forever

from . import tiles
from .claiming import Claiming, Ends, Failure
from .hot import HotCache
from .pieces import Piece, Rule, Wanted
from .tally import Outcome, Pace, Tally

BEHIND_SECONDS = 0.05
"""How long it leaves to those who wait, until it looks whether they still do."""

LOOKED_AT = 16
"""So many pieces are looked at together: what is fresh is passed over quickly."""

Settled = Callable[[int], None]
"""Told of each piece that is settled, and of how many tiles were prepared for it."""


class Run:
    """One pass over some pieces. Made and used in one event loop."""

    def __init__(self, clients: connections.Clients, hot: HotCache, rule: Rule, pace: Pace, settled: Settled) -> None:
        self.tally = Tally()
        self._clients, self._hot, self._rule, self._pace, self._settled = clients, hot, rule, pace, settled
        self._places = asyncio.Semaphore(pace.concurrency)
        self._ends = Ends()
        self._claiming = Claiming(clients, self._ends, rule)
        self._stopped = asyncio.Event()
        self._next_at = 0.0

    def stop(self) -> None:
        """Begins no more. What has begun is waited for."""
        self._stopped.set()

    @property
    def is_stopped(self) -> bool:
        return self._stopped.is_set()

    async def run(self, pieces: Iterator[Piece]) -> None:
        """Settles the pieces until there are none, the time is up, or it is stopped. The tally has what came of it.

        Raises what finding the pieces raises, as DatabaseError.
        """
        began, loop = time.monotonic(), asyncio.get_running_loop()
        if self._pace.duration_seconds is not None:
            loop.call_later(self._pace.duration_seconds, self.stop)
        self._next_at = began
        listening = asyncio.create_task(listen_forever(FINISHED_CHANNEL, self._ends.hear))
        try:
            with _finder() as finding:
                async with asyncio.TaskGroup() as group:
                    while not self.is_stopped:
                        batch = await loop.run_in_executor(finding, _found, pieces)
                        if not batch:
                            break
                        await self._begin(batch, group)
            await self._hot.settle(self._stopped)
        except ExceptionGroup as failed:
            self._break(failed)
        finally:
            self.tally.hot = self._hot.filled
            listening.cancel()
            await asyncio.wait({listening})

    def _break(self, failed: ExceptionGroup[Exception]) -> None:
        """Notes that a server stayed away. Raises what else was the first to go wrong."""
        error: Exception = failed
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        if not isinstance(error, StoreUnavailable):
            raise error
        self.tally.broken = str(error)

    async def _begin(self, batch: list[Piece], group: asyncio.TaskGroup) -> None:
        now = datetime.now(UTC)
        found = iter(await self._contents([wanted.content_key for piece in batch for wanted in piece.wanted]))
        for piece in batch:
            lacking = self._rule.lacking(piece, list(islice(found, len(piece.wanted))), now)
            if not lacking:
                self._settle("fresh")
                continue
            if not await self._has_turn(piece, len(lacking)):
                return
            group.create_task(self._prepare(piece, lacking[0]))

    async def _contents(self, keys: list[str]) -> list[Content | None]:
        """What the cache has of them. Raises StoreUnavailable."""
        return await self._claiming.patiently(lambda: [contents.read(key, with_body=False) for key in keys])

    async def _has_turn(self, piece: Piece, tiles: int) -> bool:
        """Waits for a place, for the rate, and for those who wait for something; whether it is still to be done."""
        await self._places.acquire()
        if self._pace.tiles_per_second is not None:
            now = time.monotonic()
            self._next_at = max(now, self._next_at) + tiles / self._pace.tiles_per_second
            await self._sleep(self._next_at - tiles / self._pace.tiles_per_second - now)
        began = time.monotonic()
        while not self.is_stopped and await self._claiming.must_yield(piece):
            await self._sleep(BEHIND_SECONDS)
            self.tally.yielded_seconds += time.monotonic() - began
            began = time.monotonic()
        if self.is_stopped:
            self._places.release()
        return not self.is_stopped

    async def _sleep(self, seconds: float) -> None:
        """For so long, or until it is stopped."""
        if seconds > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._stopped.wait()

    async def _prepare(self, piece: Piece, seen: Wanted) -> None:
        try:
            outcome = await self._claiming.prepare(piece, seen)
            if isinstance(outcome, Failure):
                await self._fail(piece, outcome)
                return
            self._hot.want(wanted.address for wanted in piece.wanted)
            self._settle(outcome, len(piece.wanted) if outcome == "prepared" else 0)
        finally:
            self._places.release()

    async def _fail(self, piece: Piece, failure: Failure) -> None:
        if await asyncio.to_thread(asked_once, partial(tiles.is_there, piece)):
            self.tally.fail(piece.work.key, failure.why)
        else:  # its layer was switched off or deleted after its turn had come
            self.tally.count("gone")
        self._settled(0)

    def _settle(self, outcome: Outcome, tiles: int = 0) -> None:
        self.tally.count(outcome, tiles)
        self._settled(tiles)


@contextmanager
def _finder() -> Iterator[ThreadPoolExecutor]:
    """One thread, with its own connection to the database."""
    with ThreadPoolExecutor(1, thread_name_prefix="pieces") as finding:
        try:
            yield finding
        finally:
            finding.submit(databases.close_all)


def _found(pieces: Iterator[Piece]) -> list[Piece]:
    with usable_connections():  # a run may go on for hours
        return list(islice(pieces, LOOKED_AT))
