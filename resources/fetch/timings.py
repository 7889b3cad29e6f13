"""The record of each fetch, and its timings in the database: written in batches, deleted when old.

Fetchers never wait for the database: records that it does not take are kept for later, up to a bound.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import fields
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from itertools import islice
from operator import attrgetter
from threading import Lock
from typing import Self

from django.db import DataError, IntegrityError, connections
from django.db import Error as DatabaseError

from retry.records import frozen_record

from .. import database
from ..database import usable_connections
from .http.limit_scopes import MAX_SCOPE_CHARACTERS, strip_egress, url_scopes
from .http.messages import BodyDropped, Fetched, FetchFailed, FetchRequest, NotModified, Outcome
from .models import FetchDomain, FetchTiming

MAX_WORD_CHARACTERS = 20
MAX_EGRESS_CHARACTERS = 100

_OUTCOME_WORDS = {
    Fetched: FetchTiming.FETCHED,
    NotModified: FetchTiming.NOT_MODIFIED,
    BodyDropped: FetchTiming.DROPPED,
}


@frozen_record
class FetchRecord:
    """One request: its start, purpose, durations and outcome. `scan` is the number of the scan that handed it over.

    `outcome` is fetched, not modified, dropped, or the value of a Failure; `head_seconds` the time to the
    last answer's head, None without one. Texts are as short as the database keeps them.
    """

    started_at: datetime
    url_digest: str
    host: str
    scope: str
    kind: str
    lane: str
    head_seconds: float | None
    seconds: float
    wire_bytes: int
    outcome: str
    status: int | None
    egress: str = ""
    scan: int | None = None

    @classmethod
    def of(
        cls, fetch: FetchRequest, outcome: Outcome, *, scope: str, lane: str, egress: str = "", host: str | None = None
    ) -> Self:
        """Returns the record of a fetch in that lane, under the limits of that scope. Raises nothing.

        `host` is that of the URL, if it is known.
        """
        timing = outcome.timing
        return cls(
            started_at=datetime.fromtimestamp(timing.started_at, UTC),
            url_digest=digest_url(fetch.url),
            host=_storable_text(_host_of_url(fetch.url) if host is None else host, MAX_SCOPE_CHARACTERS),
            scope=_storable_text(scope, MAX_SCOPE_CHARACTERS),
            kind=_storable_text(fetch.kind, MAX_WORD_CHARACTERS),
            lane=lane,
            head_seconds=timing.head_seconds,
            seconds=timing.seconds,
            wire_bytes=timing.wire_bytes,
            outcome=outcome.failure.value if isinstance(outcome, FetchFailed) else _OUTCOME_WORDS[type(outcome)],
            status=outcome.status if isinstance(outcome, FetchFailed) else outcome.head.status,
            egress=_storable_text(egress, MAX_EGRESS_CHARACTERS),
            scan=fetch.scan,
        )


def digest_url(url: str) -> str:
    """Returns the digest of an address for records: the SHA-256 of it as given, in lower-case hex."""
    return sha256(url.encode("utf-8", "surrogatepass")).hexdigest()


def _host_of_url(url: str) -> str:
    try:
        return url_scopes(url).host
    except ValueError:  # an address without a host fails, and its failure is noted too
        return ""


@lru_cache(maxsize=4096)
def _storable_text(text: str, most: int) -> str:
    """Makes a text fit for every database: PostgreSQL has no NUL, and no half of a surrogate pair."""
    if text.isascii() and text.isprintable():  # as nearly all are
        return text[:most]
    return text.encode("utf-8", "replace").decode().replace("\0", "?")[:most]


MAX_KEPT_RECORDS = 10_000
WRITE_BATCH_RECORDS = 500
WRITE_EVERY_SECONDS = 1.0
KNOWN_DOMAIN_SECONDS = 60.0
PRUNE_SLICE_ROWS = 2_000

RECORD_FIELDS = [field.name for field in fields(FetchRecord)]
_values_of = attrgetter(*RECORD_FIELDS)
REFUSAL_ERRORS = (DataError, IntegrityError, ValueError, OverflowError)

_log = logging.getLogger("tarry.timings")


class TimingRecorder:
    """Takes records from the event loop's thread, and writes them while run() runs.

    Holds at most `most_kept`; beyond that the oldest are dropped, which is logged once for each outage.
    """

    def __init__(self, *, most_kept: int = MAX_KEPT_RECORDS, every_seconds: float = WRITE_EVERY_SECONDS) -> None:
        self._every_seconds = every_seconds
        self._kept: deque[FetchRecord] = deque(maxlen=most_kept)
        self._lock = Lock()  # held for moments, never while the database is asked
        self._some = asyncio.Event()
        self._many = asyncio.Event()
        self._dropped = 0
        self._fails = False
        self._known = KnownDomains()

    def add(self, record: FetchRecord) -> None:
        """Keeps the record until it is written. Never waits, never raises."""
        with self._lock:
            if len(self._kept) == self._kept.maxlen:
                self._dropped += 1
                if self._dropped == 1:
                    _log.warning("records of fetches are dropped: the database does not take them")
            self._kept.append(record)
            many = len(self._kept) >= WRITE_BATCH_RECORDS
        self._some.set()
        if many and not self._fails:
            self._many.set()

    async def run(self) -> None:
        """Writes until it is cancelled, and then the rest, once. At most once a second, or 500 records.

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
        """Waits until there is a record and a second has passed, or there is a batch."""
        if not self._fails:  # else the kept records are tried again
            await self._some.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._every_seconds):
                await self._many.wait()
        self._some.clear()
        self._many.clear()

    def _write(self) -> None:
        """Writes all records. Records that the database does not take stay, in their order."""
        while batch := self._take():
            try:
                write_records(batch, self._known)
            except REFUSAL_ERRORS:  # the same would be refused again
                _log.exception("records of fetches were refused", extra={"records": len(batch)})
            except DatabaseError as error:
                self._put_back(batch)
                if not self._fails:
                    _log.warning("records of fetches cannot be written", extra={"error": str(error)})
                self._fails = True
                return
            if self._fails:
                _log.warning("records of fetches are written again", extra={"dropped": self._dropped})
            self._fails, self._dropped = False, 0

    def _take(self) -> list[FetchRecord]:
        with self._lock:
            return [self._kept.popleft() for _ in range(min(WRITE_BATCH_RECORDS, len(self._kept)))]

    def _put_back(self, batch: Sequence[FetchRecord]) -> None:
        """Puts records back in front, as far as there is room: the oldest are dropped first."""
        with self._lock:
            room = (self._kept.maxlen or 0) - len(self._kept)
            self._dropped += max(0, len(batch) - room)
            self._kept.extendleft(islice(reversed(batch), room))


class KnownDomains:
    """The domains that had a row less than a minute ago. An admin may delete it: it comes back with a later request."""

    def __init__(self) -> None:
        self._names = set[str]()
        self._until = 0.0

    def add_rows(self, scopes: Iterable[str]) -> None:
        """Writes a row for each domain without one. Raises DatabaseError."""
        if time.monotonic() >= self._until:
            self._names, self._until = set(), time.monotonic() + KNOWN_DOMAIN_SECONDS
        asked = {name for scope in set(scopes) if scope for name in (scope, strip_egress(scope))} - self._names
        if not asked:
            return
        unknown = asked.difference(FetchDomain.objects.filter(scope__in=asked).values_list("scope", flat=True))
        # Another fetcher may be at the same.
        FetchDomain.objects.bulk_create([FetchDomain(scope=scope) for scope in sorted(unknown)], ignore_conflicts=True)
        self._names |= asked


def write_records(records: Iterable[FetchRecord], known: KnownDomains | None = None) -> None:
    """Writes the records, and a row for each domain without one. Raises DatabaseError."""
    records = list(records)
    with usable_connections():
        (known or KnownDomains()).add_rows(one.scope for one in records)
        database.insert_rows(FetchTiming, RECORD_FIELDS, map(_values_of, records))


def prune_timings(before: datetime, seconds: float) -> int:
    """Deletes timings that began before, slice by slice, for about so long at the most. Returns their number."""
    deleted, until = 0, time.monotonic() + seconds
    while True:
        old = FetchTiming.objects.filter(started_at__lt=before).order_by("started_at").values("pk")[:PRUNE_SLICE_ROWS]
        number, _ = FetchTiming.objects.filter(pk__in=old).delete()
        deleted += number
        if number < PRUNE_SLICE_ROWS or time.monotonic() >= until:
            return deleted
