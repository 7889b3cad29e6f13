"""Counts the steps that settled URLs, by hour.

A process gathers counts and writes them once a second. A killed process loses its unwritten counts: they are
figures for people, not the truth about any URL.
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

from ..database import usable_connections
from .models import Tally

REPORTED_STEP = "reported"
"""The step of reported URLs."""

BODY_STEP = "body"
"""The step of downloaded bodies."""

_HourStep = tuple[datetime, str]

_log = logging.getLogger("tarry.mirroring")


def count_urls(step: str, number: int, now: datetime) -> None:
    """Counts so many URLs for a step (models.DedupeStep, REPORTED_STEP or BODY_STEP). Never waits, never raises."""
    if number <= 0:
        return
    _buffer.add((now.replace(minute=0, second=0, microsecond=0), step), number)
    if not settings.MIRROR_TALLY_SECONDS:
        flush_tallies()


def flush_tallies() -> None:
    """Writes the gathered counts. Keeps them for the next time if the database does not take them."""
    counts = _buffer.take()
    if not counts:
        return
    try:
        with usable_connections():
            add_tallies(counts)
    except DatabaseError as error:
        _log.warning("tallies cannot be written", extra={"error": str(error)})
        for place, number in counts.items():
            _buffer.add(place, number)


def add_tallies(counts: Mapping[_HourStep, int]) -> None:
    """Adds the counts to the rows in one statement. Raises DatabaseError."""
    table = connection.ops.quote_name(Tally._meta.db_table)
    rows = [
        (connection.ops.adapt_datetimefield_value(hour), step, number)
        for (hour, step), number in sorted(counts.items())  # sorted: else two writers could deadlock
    ]
    places = ", ".join(["(%s, %s, %s)"] * len(rows))
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {table} (hour, step, number) VALUES {places} "  # noqa: S608  the table's own name
            f"ON CONFLICT (hour, step) DO UPDATE SET number = {table}.number + excluded.number",
            [value for row in rows for value in row],
        )


class _TallyBuffer:
    """Counts of this process, and the thread that writes them: started by the first count, anew in a forked process."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Starts anew. The child of a fork has neither the thread nor a right to the parent's counts."""
        self._lock = threading.Lock()
        self._counts: Counter[_HourStep] = Counter()
        self._thread: threading.Thread | None = None

    def add(self, place: _HourStep, number: int) -> None:
        with self._lock:
            self._counts[place] += number
            if self._thread is None and settings.MIRROR_TALLY_SECONDS:
                self._thread = threading.Thread(target=_write_forever, name="tallies", daemon=True)
                self._thread.start()

    def take(self) -> Mapping[_HourStep, int]:
        with self._lock:
            counts, self._counts = self._counts, Counter()
            return counts


def _write_forever() -> None:
    """Writes until the pause is set to 0: then each count is written at once."""
    while pause_seconds := settings.MIRROR_TALLY_SECONDS:
        time.sleep(pause_seconds)
        flush_tallies()


_buffer = _TallyBuffer()


@atexit.register
def _flush_at_exit() -> None:
    with suppress(Exception):  # the interpreter ends: modules may be gone already
        flush_tallies()


os.register_at_fork(after_in_child=_buffer.forget)
