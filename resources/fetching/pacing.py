"""The clock of one fetch: its deadline, the wait for each head, the minimum rate of the body.

All three are one timeout of asyncio that is moved along, since aiohttp's own never fire on a server that drips.
"""

import asyncio

from .errors import FetchError
from .outcomes import Failure, Timing
from .requests import Limits


class Pace:
    """Use it within `asyncio.timeout_at(pace.deadline)`, whose timer it moves. Times are those of the event loop."""

    def __init__(self, limits: Limits, *, started_at: float, now: float) -> None:
        self.deadline = now + limits.deadline_seconds
        self.wire_bytes = 0
        self._limits = limits
        self._started_at = started_at
        self._started = now
        self._head_at: float | None = None
        self._timer: asyncio.Timeout | None = None
        self._waits_for = "the connection"
        # As many bytes as must come within a window; then the next window begins.
        self._window_bytes = limits.min_bytes_per_second * limits.window_seconds
        self._window_received = 0

    def governs(self, timer: asyncio.Timeout) -> None:
        """From now on it moves this timer."""
        self._timer = timer

    def awaits_head(self, now: float) -> None:
        """A request goes out. The time for its connection counts too."""
        self._waits_for = "an answer"
        self._until(now + self._limits.head_seconds)

    def has_head(self, now: float) -> None:
        """An answer's head is there. Only the deadline counts while its asker looks at it."""
        self._head_at = now
        self._waits_for = "the end of an answer"
        self._until(self.deadline)

    def begins_body(self, now: float) -> None:
        self._waits_for = "the body"
        self._begin_window(now)

    def received(self, size: int, now: float) -> None:
        """So many bytes of the body came."""
        self.wire_bytes += size
        self._window_received += size
        if self._window_received >= self._window_bytes:
            self._begin_window(now)

    def seconds_left(self, now: float) -> float:
        return self.deadline - now

    def ran_out(self, now: float) -> FetchError:
        """What to tell when the timer has fired."""
        if now < self.deadline and self._waits_for == "the body":
            rate, window = self._limits.min_bytes_per_second, self._limits.window_seconds
            return FetchError(Failure.TOO_SLOW, f"fewer than {rate:g} bytes a second over {window:g} s")
        seconds = now - self._started
        return FetchError(Failure.TOO_SLOW, f"{seconds:.1f} s were over while waiting for {self._waits_for}")

    def timing(self, now: float) -> Timing:
        head_seconds = None if self._head_at is None else self._head_at - self._started
        return Timing(self._started_at, now - self._started, head_seconds, self.wire_bytes)

    def _begin_window(self, now: float) -> None:
        self._window_received = 0
        self._until(now + self._limits.window_seconds)

    def _until(self, moment: float) -> None:
        if self._timer is not None and not self._timer.expired():
            self._timer.reschedule(min(moment, self.deadline))
