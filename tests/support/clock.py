"""A clock that leaves out the moments in which the machine stood still, as when its host gives the processor to others.

A bound that is measured with it is as strict on a busy machine as on a quiet one: only the computing of this process
counts.
"""

import asyncio
from collections.abc import Awaitable
from threading import Lock, Thread
from time import monotonic, process_time, sleep  # the real ones, though tests replace the module's
from typing import TypeVar

T = TypeVar("T")

PULSE_SECONDS = 0.02
STANDS_STILL_SECONDS = 0.1
"""A pulse that is late by less is nothing unusual where Python code keeps the interpreter to itself."""
PATIENCE_SECONDS = 60


class Pulse(Thread):
    """Wakes all the time, and counts by how much it woke too late though this process had nothing to do."""

    def __init__(self) -> None:
        super().__init__(name="pulse", daemon=True)
        self._lock = Lock()
        self._due, self._computed_seconds = monotonic(), process_time()
        self._stood_still_seconds = 0.0

    def run(self) -> None:
        while True:
            with self._lock:
                self._stood_still_seconds += self._late_seconds()
                self._due, self._computed_seconds = monotonic() + PULSE_SECONDS, process_time()
            sleep(PULSE_SECONDS)

    def stood_still_seconds(self) -> float:
        assert self.is_alive()
        with self._lock:
            return self._stood_still_seconds + self._late_seconds()

    def _late_seconds(self) -> float:
        late = monotonic() - self._due - (process_time() - self._computed_seconds)
        return late if late > STANDS_STILL_SECONDS else 0


_PULSE = Pulse()
_PULSE.start()


def seconds() -> float:
    """The seconds in which the machine ran, since a fixed moment."""
    return monotonic() - _PULSE.stood_still_seconds()


async def within(limit_seconds: float, awaited: Awaitable[T]) -> T:
    """Returns the result of an awaitable. Raises AssertionError or TimeoutError if it does not come in time."""
    began = seconds()
    async with asyncio.timeout(PATIENCE_SECONDS):
        found = await awaited
    assert seconds() - began < limit_seconds
    return found
