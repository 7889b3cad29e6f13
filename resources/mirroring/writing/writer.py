"""The writer of a process: many threads hand in what came of URLs, one writes it in batches.

While one batch is being written the next one gathers, so that a busy process writes large ones and an idle one waits
for nothing.
"""

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from queue import Empty, SimpleQueue
from threading import Lock, Thread

from django.db import DataError, IntegrityError, connection
from django.db import Error as DatabaseError

from ..errors import WriteError
from ..knowing.found import Outcome
from .flushing import flush

MOST_AT_ONCE = 200
GATHER_SECONDS = 0.01
"""How long the first of a batch waits for others: what was downloaded side by side ends side by side."""
PATIENCE_SECONDS = 10.0
"""How long a database that is away is tried again. Then what was to be written is done again, later."""
PAUSE_SECONDS = 0.5
IDLE_SECONDS = 5.0
"""After that the thread ends, and its connection with it."""
REFUSED = (DataError, IntegrityError, ValueError, OverflowError)

Flush = Callable[[Sequence[Outcome], datetime], list[Outcome]]

_log = logging.getLogger("tarry.mirroring")


@dataclass(frozen=True, slots=True)
class _Order:
    """`since` is when it was handed in, by the monotonic clock."""

    outcome: Outcome
    written: "Future[Outcome]" = field(default_factory=Future)
    since: float = field(default_factory=time.monotonic)


class Writer:
    """Its thread lives as long as there is something to write, and a little longer."""

    def __init__(self, flush: Flush = flush) -> None:
        self._flush = flush
        self._orders: SimpleQueue[_Order] = SimpleQueue()
        self._lock = Lock()
        self._thread: Thread | None = None

    def write(self, outcome: Outcome) -> Outcome:
        """Blocks until it is in the database; as it was written, with the step that settled it. Raises WriteError."""
        return self.hand_in(outcome).result()

    def hand_in(self, outcome: Outcome) -> "Future[Outcome]":
        """The same without waiting: the future has what `write` returns, or raises."""
        order = _Order(outcome)
        with self._lock:
            self._orders.put(order)
            if self._thread is None:
                self._thread = Thread(target=self._run, daemon=True, name="writer")
                self._thread.start()
        return order.written

    @property
    def waiting(self) -> int:
        """How many wait for a batch that has not begun."""
        return self._orders.qsize()

    def join(self) -> None:
        """Returns when its thread has ended, for want of work."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        try:
            while batch := self._gather():
                self._write(batch)
        finally:
            connection.close()

    def _gather(self) -> list[_Order]:
        """The next batch; none when nobody has come for a while, and the thread ends."""
        try:
            batch = [self._orders.get(timeout=IDLE_SECONDS)]
        except Empty:
            with self._lock:
                if self._orders.empty():
                    self._thread = None
                    return []
            batch = [self._orders.get()]
        until = batch[0].since + GATHER_SECONDS
        while len(batch) < MOST_AT_ONCE:
            try:
                batch.append(self._orders.get(timeout=max(0.0, until - time.monotonic())))
            except Empty:
                break
        return batch

    def _write(self, batch: Sequence[_Order]) -> None:
        try:
            written = self._insist([order.outcome for order in batch])
        except REFUSED as error:
            self._write_apart(batch, error)
        except Exception as error:  # noqa: BLE001  the edge of a thread: told to all who wait
            _fail(batch, error)
        else:
            for order, outcome in zip(batch, written, strict=True):
                order.written.set_result(outcome)

    def _write_apart(self, batch: Sequence[_Order], error: Exception) -> None:
        """The database refuses one of them: the others are written."""
        if len(batch) == 1:
            _fail(batch, error)
            return
        for order in batch:
            self._write([order])

    def _insist(self, outcomes: list[Outcome]) -> list[Outcome]:
        until = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return self._flush(outcomes, datetime.now(UTC))
            except REFUSED:
                raise
            except DatabaseError as error:
                connection.close()  # the next one is made anew
                if time.monotonic() > until:
                    raise
                _log.warning("what was fetched cannot be written now", extra={"error": str(error)})
            time.sleep(PAUSE_SECONDS)


@cache
def current() -> Writer:
    """The one of this process."""
    return Writer()


def _fail(batch: Sequence[_Order], error: Exception) -> None:
    _log.error("what was fetched was not written", extra={"files": len(batch), "error": str(error)})
    for order in batch:
        failed = WriteError("What was fetched could not be written.")
        failed.__cause__ = error
        order.written.set_exception(failed)
