"""Counts what became of URLs, by hour. Counts are gathered in the process and written once a second.

A process that is killed loses what it had not written: these are figures for people, not the truth about any URL.
"""

import atexit
import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime

from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection

from resources.threads import usable_connections

from .models import Tally

REPORTED = "reported"
"""URLs that were reported."""

BODY = "body"
"""Bodies that were downloaded."""

_Place = tuple[datetime, str]

_log = logging.getLogger("tarry.mirroring")


def count(step: str, number: int, now: datetime) -> None:
    """Counts so many URLs that a step has settled (models.Step, REPORTED or BODY). Never waits, never raises."""
    if number <= 0:
        return
    _buffer.add((now.replace(minute=0, second=0, microsecond=0), step), number)
    if not settings.MIRROR_TALLY_SECONDS:
        flush()


def flush() -> None:
    """Writes what was counted. What the database does not take is kept for the next time."""
    counts = _buffer.take()
    if not counts:
        return
    try:
        with usable_connections():
            add(counts)
    except DatabaseError as error:
        _log.warning("tallies cannot be written", extra={"error": str(error)})
        for place, number in counts.items():
            _buffer.add(place, number)


def add(counts: Mapping[_Place, int]) -> None:
    """Adds to the rows, one statement for all of them. Raises DatabaseError."""
    table = connection.ops.quote_name(Tally._meta.db_table)
    rows = [
        (connection.ops.adapt_datetimefield_value(hour), step, number)
        for (hour, step), number in sorted(counts.items())  # in one order: else two writers may wait for each other
    ]
    places = ", ".join(["(%s, %s, %s)"] * len(rows))
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {table} (hour, step, number) VALUES {places} "  # noqa: S608  the table's own name
            f"ON CONFLICT (hour, step) DO UPDATE SET number = {table}.number + excluded.number",
            [value for row in rows for value in row],
        )


class _Buffer:
    """Counts of this process, and the thread that writes them: started by the first, anew in a forked process."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begins anew. The child of a fork has neither the thread nor a right to the parent's counts."""
        self._lock = threading.Lock()
        self._counts: Counter[_Place] = Counter()
        self._thread: threading.Thread | None = None

    def add(self, place: _Place, number: int) -> None:
        with self._lock:
            self._counts[place] += number
            if self._thread is None and settings.MIRROR_TALLY_SECONDS:
                self._thread = threading.Thread(target=_write_forever, name="tallies", daemon=True)
                self._thread.start()

    def take(self) -> Mapping[_Place, int]:
        with self._lock:
            counts, self._counts = self._counts, Counter()
            return counts


def _write_forever() -> None:
    """Until there is no pause any more: who counts writes it then."""
    while pause_seconds := settings.MIRROR_TALLY_SECONDS:
        time.sleep(pause_seconds)
        flush()


_buffer = _Buffer()


@atexit.register
def _flush_at_exit() -> None:
    with suppress(Exception):  # the interpreter ends: whatever is missing by now is no news
        flush()


os.register_at_fork(after_in_child=_buffer.forget)
