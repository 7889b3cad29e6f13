"""Writes a record of every fetch to the database, in batches, and removes those that are old.

Fetchers never wait for it: what the database does not take is kept for later, up to a bound.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import fields
from datetime import datetime
from itertools import islice
from threading import Lock

from django.db import DataError, IntegrityError, connections
from django.db import Error as DatabaseError

from resources.threads import usable_connections

from ..addressing.scopes import plain
from .models import FetchDomain, FetchTiming
from .records import Record

MOST_KEPT = 10_000
BATCH = 500
EVERY_SECONDS = 1.0
SLICE = 2_000

FIELDS = [field.name for field in fields(Record)]
REFUSED = (DataError, IntegrityError, ValueError, OverflowError)

_log = logging.getLogger("tarry.timings")


class Recorder:
    """Takes records from the event loop's thread, and writes them while run() runs.

    Holds at most `most_kept`; beyond that the oldest are dropped, which is logged once for each outage.
    """

    def __init__(self, *, most_kept: int = MOST_KEPT, every_seconds: float = EVERY_SECONDS) -> None:
        self._every_seconds = every_seconds
        self._kept: deque[Record] = deque(maxlen=most_kept)
        self._lock = Lock()  # held for moments, never while the database is asked
        self._some = asyncio.Event()
        self._many = asyncio.Event()
        self._dropped = 0
        self._fails = False

    def add(self, record: Record) -> None:
        """Keeps the record until it is written. Never waits, never raises."""
        with self._lock:
            self._make_room(1)
            self._kept.append(record)
            many = len(self._kept) >= BATCH
        self._some.set()
        if many and not self._fails:
            self._many.set()

    async def run(self) -> None:
        """Writes until it is cancelled, and then what is left, once. At most once a second, or 500 records.

        One thread has one connection: Django's belong to threads.
        """
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1, thread_name_prefix="timings") as thread:
            try:
                while True:
                    await self._until_due()
                    await loop.run_in_executor(thread, self._write)
            finally:
                await loop.run_in_executor(thread, self._write)
                await loop.run_in_executor(thread, connections.close_all)

    async def _until_due(self) -> None:
        """Until there is something and a second has passed, or there is a batch."""
        if not self._fails:  # else what is kept is tried again
            await self._some.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._every_seconds):
                await self._many.wait()
        self._some.clear()
        self._many.clear()

    def _write(self) -> None:
        """All there is. What the database does not take stays, in its order."""
        while batch := self._take():
            try:
                write(batch)
            except REFUSED:  # the same would be refused again
                _log.exception("records of fetches were refused", extra={"records": len(batch)})
            except DatabaseError as error:
                self._put_back(batch)
                self._say_failing(error)
                return
            self._say_working()

    def _take(self) -> list[Record]:
        with self._lock:
            return [self._kept.popleft() for _ in range(min(BATCH, len(self._kept)))]

    def _put_back(self, batch: Sequence[Record]) -> None:
        """Before all others, as far as there is room: the oldest are the ones to go."""
        with self._lock:
            room = (self._kept.maxlen or 0) - len(self._kept)
            self._dropped += max(0, len(batch) - room)
            self._kept.extendleft(islice(reversed(batch), room))

    def _make_room(self, size: int) -> None:
        if len(self._kept) + size > (self._kept.maxlen or 0):
            self._dropped += size
            if self._dropped == size:
                _log.warning("records of fetches are dropped: the database does not take them")

    def _say_failing(self, error: Exception) -> None:
        if not self._fails:
            _log.warning("records of fetches cannot be written", extra={"error": str(error)})
        self._fails = True

    def _say_working(self) -> None:
        if self._fails:
            _log.warning("records of fetches are written again", extra={"dropped": self._dropped})
        self._fails, self._dropped = False, 0


def write(records: Iterable[Record]) -> None:
    """Writes the records, and a row for each domain that has none. Raises DatabaseError."""
    rows = [FetchTiming(**{name: getattr(record, name) for name in FIELDS}) for record in records]
    with usable_connections():
        scopes = {name for row in rows if row.scope for name in (row.scope, plain(row.scope))}
        unknown = scopes.difference(FetchDomain.objects.filter(scope__in=scopes).values_list("scope", flat=True))
        # Another fetcher may be at the same.
        FetchDomain.objects.bulk_create([FetchDomain(scope=scope) for scope in sorted(unknown)], ignore_conflicts=True)
        FetchTiming.objects.bulk_create(rows)


def prune(before: datetime, seconds: float) -> int:
    """Deletes timings that began before, slice by slice, for about so long at the most. How many."""
    deleted, until = 0, time.monotonic() + seconds
    while True:
        old = FetchTiming.objects.filter(started_at__lt=before).order_by("started_at").values("pk")[:SLICE]
        number, _ = FetchTiming.objects.filter(pk__in=old).delete()
        deleted += number
        if number < SLICE or time.monotonic() >= until:
            return deleted
