"""What a process knows of some rows: read again now and then while somebody asks.

A database that is away changes nothing but the age of what is known.
"""

import logging
import math
import time
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

from django.db import Error as DatabaseError

PATIENCE_SECONDS = 2.0
"""How long a caller waits for another one's reading, when what is known is too old."""

Known = TypeVar("Known")

_log = logging.getLogger("tarry.snapshots")


class Snapshot(Generic[Known]):
    """What `read` has found, read again every `seconds` while somebody asks. `what` names it in the log."""

    def __init__(self, what: str, read: Callable[[], Known], seconds: Callable[[], float]) -> None:
        self._what = what
        self._read = read
        self._seconds = seconds
        self._lock = Lock()
        self.forget()

    def get(self) -> Known:
        """Raises DatabaseError only if it could never be read."""
        if not self._known or self._is_due():
            self._renew()
        if not self._known:
            raise DatabaseError(f"{self._what} could not be read")
        return self._known[0]

    def current(self) -> Known | None:
        """What is known, if it need not be read again yet. Never waits."""
        known = self._known  # another thread may forget it
        return known[0] if known and not self._is_due() else None

    def forget(self) -> None:
        with self._lock:
            self._known: tuple[Known] | tuple[()] = ()
            self._taken = self._tried = -math.inf

    def _is_due(self) -> bool:
        return time.monotonic() - self._tried >= self._seconds()

    def _renew(self) -> None:
        """Reads, or waits for the thread that is reading, though not for long."""
        if not self._lock.acquire(timeout=self._patience_seconds()):
            return
        try:
            if self._is_due():  # no other thread has asked while this one waited
                self._take()
        finally:
            self._lock.release()

    def _patience_seconds(self) -> float:
        """None for what is nearly new, and none while the database fails: nothing better is near."""
        recent = time.monotonic() - self._taken < 2 * self._seconds()
        failing = self._tried > self._taken
        return 0 if self._known and (recent or failing) else PATIENCE_SECONDS

    def _take(self) -> None:
        try:
            self._known = (self._read(),)
        except DatabaseError:
            self._tried = time.monotonic()  # after the attempt: a database that fails slowly is not asked at once
            _log.warning("%s could not be read", self._what, exc_info=True)
        else:
            self._taken = self._tried = time.monotonic()
