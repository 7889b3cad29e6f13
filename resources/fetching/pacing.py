"""The clock of one fetch: its deadline, the wait for each head, the minimum rate of the body.

All three are one moment, moved along, at which the fetch is cancelled: aiohttp's own timeouts never fire on a server
that drips. One timer looks after all fetches of a client, since a timer of the event loop for each costs more than
all else that the client adds to a fast fetch.
"""

import asyncio
from types import TracebackType
from typing import Self

from .errors import FetchError
from .outcomes import Failure, Timing
from .requests import Limits

TICK_SECONDS = 0.05
"""How late a fetch may end."""


class Watch:
    """Ends fetches whose moment has come. It sleeps when there are none."""

    def __init__(self) -> None:
        self._paces: set[Pace] = set()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, pace: "Pace") -> None:
        self._paces.add(pace)
        if self._timer is None:
            self._wait()

    def remove(self, pace: "Pace") -> None:
        self._paces.discard(pace)

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(TICK_SECONDS, self._look)

    def _look(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        for pace in [pace for pace in self._paces if pace.until <= now]:
            self._paces.discard(pace)
            pace.end()
        if self._paces:
            self._wait()


class Pace:
    """Around a fetch: `with pace`, in its task. Raises TimeoutError there when its moment has come.

    Times are those of the event loop. `wire_bytes` are those of the body, as they are sent.
    """

    def __init__(self, watch: Watch, limits: Limits, *, started_at: float, now: float) -> None:
        self.deadline = self.until = now + limits.deadline_seconds
        self.has_ended = False
        self.wire_bytes = 0
        self._watch = watch
        self._limits = limits
        self._started_at = started_at
        self._started = now
        self._head_at: float | None = None
        self._waits_for = "the connection"
        # As many bytes as must come within a window; then the next window begins.
        self._window_bytes = limits.min_bytes_per_second * limits.window_seconds
        self._window_received = 0

    def __enter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None
        self._task, self._cancelling = task, task.cancelling()
        self._watch.add(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._watch.remove(self)
        # As asyncio.timeout does: a cancellation from elsewhere stays one.
        if self.has_ended and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def end(self) -> None:
        self.has_ended = True
        self._task.cancel()

    def awaits_head(self, now: float) -> None:
        """A request goes out. The time for its connection counts too."""
        self._waits_for = "an answer"
        self.until = min(now + self._limits.head_seconds, self.deadline)

    def has_head(self, now: float) -> None:
        """An answer's head is there. Only the deadline counts while its asker looks at it."""
        self._head_at = now
        self._waits_for = "the end of an answer"
        self.until = self.deadline

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
        """What to tell when it has ended."""
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
        self.until = min(now + self._limits.window_seconds, self.deadline)
