"""A clock that leaves out the moments in which the machine stood still, as when its host gives the processor to others.

A bound that is measured with it is as strict on a busy machine as on a quiet one.
"""

import time
from functools import cache
from threading import Event, Thread

PULSE_SECONDS = 0.02
STANDS_STILL_SECONDS = 0.1
"""A pulse that is late by less is nothing unusual where Python code keeps the interpreter to itself."""


class Pulse(Thread):
    """Wakes all the time, and counts by how much it woke too late."""

    def __init__(self) -> None:
        super().__init__(name="pulse", daemon=True)
        self._due = time.monotonic()
        self._stood_still = 0.0

    def run(self) -> None:
        never = Event()
        while True:
            self._due = time.monotonic() + PULSE_SECONDS
            never.wait(PULSE_SECONDS)
            self._stood_still += self._late()

    def stood_still(self) -> float:
        return self._stood_still + self._late()

    def _late(self) -> float:
        late = time.monotonic() - self._due
        return late if late > STANDS_STILL_SECONDS else 0


@cache
def _pulse() -> Pulse:
    pulse = Pulse()
    pulse.start()
    return pulse


def seconds() -> float:
    """Seconds in which the machine ran, from a moment that is always the same."""
    return time.monotonic() - _pulse().stood_still()
