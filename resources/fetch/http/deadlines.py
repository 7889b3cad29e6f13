"""The clock of one fetch: its deadline, the wait for each head, the minimum rate of the body.

All three are one moment, moved along, at which the fetch is cancelled: aiohttp's own timeouts never fire on a
server that drips. One timer serves all fetches of a client, since a timer of the event loop for each costs more
than all else that the client adds to a fast fetch.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from pathlib import Path
from types import TracebackType
from typing import Self

from .allowed_ips import AddressGuard
from .messages import Failure, FetchError, FetchRequest, OutcomeTiming


def take_any_room(size: int) -> None:
    """Takes room for bytes of a file where nothing bounds them. Another such function raises OSError."""


@dataclass(frozen=True, slots=True)
class FetchPolicy:
    """The settings of all fetches. `spool_directory` is the place of large bodies, for which `take_room` takes room."""

    guard: AddressGuard
    user_agent: str
    spool_directory: Path
    allow_downgrade: bool = False
    take_room: Callable[[int], None] = take_any_room


WATCH_TICK_SECONDS = 0.05
"""A fetch ends one or two of these after its moment: it is checked twice, and arrived data is read in between, even
if the event loop stood still.
"""


class DeadlineWatch:
    """Ends fetches whose moment has come. It sleeps while there are none."""

    def __init__(self) -> None:
        self._paces: set[FetchPace] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._overdue: set[FetchPace] = set()

    def add(self, pace: "FetchPace") -> None:
        self._paces.add(pace)
        if self._timer is None:
            self._wait()

    def remove(self, pace: "FetchPace") -> None:
        self._paces.discard(pace)

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(WATCH_TICK_SECONDS, self._look)

    def _look(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        due = {pace for pace in self._paces if pace.until <= now}
        for_the_second_time, self._overdue = due & self._overdue, due
        if self._paces:
            self._wait()  # first: the calls below may raise
        for pace in for_the_second_time:
            if not pace.goes_on_slowly(now):
                self._paces.discard(pace)
                pace.end()


class FetchPace:
    """Limits the time of a fetch: `with pace`, in its task. Raises TimeoutError there when its moment has come.

    Times are those of the event loop. `wire_bytes` are the body's bytes, as they are sent. `limits` are the limits in
    force: the fetch's own, or, once its body turns out slow, those for slow bodies.
    """

    def __init__(
        self,
        watch: DeadlineWatch,
        fetch: FetchRequest,
        slows: Callable[[], None] | None,
        *,
        started_at: float,
        now: float,
    ) -> None:
        self.limits = limits = fetch.limits
        self.deadline = self.until = now + limits.deadline_seconds
        self.has_ended = False
        self.wire_bytes = 0
        self._watch = watch
        self._slow_limits = fetch.slow_limits
        self._slows = slows
        self._slow_at = inf
        self._started_at = started_at
        self._started = now
        self._head_at: float | None = None
        self._asked_at = now
        self._answer_seconds: list[float] = []
        self._waits_for = "the connection"
        self._awaits = False
        self._window_bytes = 0.0
        self._window_ends = self._window_seconds_left = inf
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

    def slow_down(self, now: float) -> bool:
        """Goes on under the limits for slow bodies; returns False if there are none, or they are in force already."""
        if self._slow_limits is None:
            return False
        self.limits, self._slow_limits, self._slow_at = self._slow_limits, None, inf
        self.deadline = self._started + self.limits.deadline_seconds
        self._begin_window()
        if self._awaits:
            self.awaits_more(now)
        else:
            self._set_until()
        if self._slows is not None:
            self._slows()
        return True

    def goes_on_slowly(self, now: float) -> bool:
        """Tells whether only the time for fast bodies is over, and goes on under the limits for slow ones."""
        return now >= self._slow_at and self.slow_down(now)

    def end(self) -> None:
        self.has_ended = True
        self._task.cancel()

    def awaits_head(self, now: float) -> None:
        """Starts the wait for a head. The time for the connection counts too."""
        self._waits_for = "an answer"
        self._asked_at = now
        self.until = min(now + self.limits.head_seconds, self.deadline)

    def has_head(self, now: float) -> None:
        """Notes an answer's head. Only the deadline counts while the task looks at it."""
        self._head_at = now
        self._answer_seconds.append(now - self._asked_at)
        self._waits_for = "the end of an answer"
        self.until = self.deadline

    def begins_body(self, now: float) -> None:
        self._waits_for = "the body"
        if self._slow_limits is not None:
            self._slow_at = self._started + min(self.limits.slow_after_seconds, self.limits.deadline_seconds)
        self._begin_window()
        self.awaits_more(now)

    def awaits_more(self, now: float) -> None:
        """Starts the wait for data: from now on time counts against the server."""
        self._awaits = True
        self._window_ends = now + self._window_seconds_left
        self._set_until()

    def received(self, size: int, now: float) -> None:
        """Notes so many bytes of the body. Handling them takes none of the server's time."""
        self.wire_bytes += size
        self._window_received += size
        self._awaits = False
        self._window_seconds_left = self._window_ends - now
        if self._window_received >= self._window_bytes:
            self._begin_window()
        self._set_until()

    def has_body(self) -> None:
        self._awaits = False
        self._set_until()

    def seconds_so_far(self, now: float) -> float:
        return now - self._started

    def ran_out(self, now: float) -> FetchError:
        if now < self.deadline and self._waits_for == "the body":
            rate, window = self.limits.min_bytes_per_second, self.limits.window_seconds
            return FetchError(Failure.TOO_SLOW, f"fewer than {rate:g} bytes a second over {window:g} s")
        seconds = now - self._started
        return FetchError(Failure.TOO_SLOW, f"{seconds:.1f} s were over while waiting for {self._waits_for}")

    def timing(self, now: float) -> OutcomeTiming:
        head_seconds = None if self._head_at is None else self._head_at - self._started
        answers = tuple(self._answer_seconds)
        return OutcomeTiming(self._started_at, now - self._started, head_seconds, self.wire_bytes, answers)

    def _begin_window(self) -> None:
        """Begins a window: so many bytes must come until its end; as soon as they have come the next one begins."""
        rate, seconds = self.limits.min_bytes_per_second, self.limits.window_seconds
        self._window_bytes = rate * seconds
        self._window_seconds_left = seconds if rate else inf
        self._window_received = 0

    def _set_until(self) -> None:
        window_ends = self._window_ends if self._awaits else inf
        self.until = min(window_ends, self.deadline, self._slow_at)
