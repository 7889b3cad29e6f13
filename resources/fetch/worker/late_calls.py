"""Calls of functions that are due a while later, unless withdrawn: with one timer of the event loop for all.

A timer for each costs more than most jobs do between their claim and their report.
"""

import asyncio
from collections.abc import Callable


class LateCalls:
    """Calls functions, each once, so many seconds after it was added. For one event loop."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._due: dict[Callable[[], None], float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, call: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        self._due[call] = due_at = loop.time() + self._seconds
        if self._timer is None:
            self._timer = loop.call_at(due_at, self._ring)

    def withdraw(self, call: Callable[[], None]) -> None:
        """Withdraws a function, unless it was called."""
        self._due.pop(call, None)

    def _ring(self) -> None:
        loop, self._timer = asyncio.get_running_loop(), None
        for call, due_at in list(self._due.items()):  # in the order of their times
            if due_at > loop.time():
                self._timer = loop.call_at(due_at, self._ring)
                return
            del self._due[call]
            call()
