"""A pool of slots that never idles while something may be fetched, in simulated time. PURE.

Orders are compared with it, and it tells beforehand what a scan will do: with expected durations, which fetch begins
when; with recorded ones, how long it would have taken in another order.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from math import fsum

from . import orders
from .fetches import Fetch, Gap, Limits
from .hosts import Host, Ready
from .orders import Order


@dataclass(frozen=True, slots=True)
class Run:
    """One fetch, as it went: when it began and ended, in seconds from the start."""

    fetch: Fetch
    began: float
    ended: float


@dataclass(frozen=True, slots=True)
class Replay:
    """How it went: all runs, in the order in which they began."""

    runs: tuple[Run, ...]

    @property
    def makespan_seconds(self) -> float:
        """When the last one ended."""
        return max((run.ended for run in self.runs), default=0.0)

    @property
    def mean_completion_seconds(self) -> float:
        """When a fetch ended, on average."""
        return fsum(run.ended for run in self.runs) / len(self.runs) if self.runs else 0.0


def replay(fetches: Iterable[Fetch], limits: Limits, order: Order, took: Mapping[str, float] | None = None) -> Replay:
    """What happens when all of them are handed over at once.

    The order goes by what is expected; `took` has what they really take, by key, where that is something else.
    """
    pool = Pool(limits, order, took or {})
    pool.add(fetches)
    return Replay(tuple(pool.run()))


class Pool:
    """Slots, hosts and a clock that jumps from event to event. What is added later finds hosts as they are then."""

    def __init__(self, limits: Limits, order: Order, took: Mapping[str, float]) -> None:
        self.limits = limits
        self.order = order
        self.took = took
        self.now = 0.0
        self._hosts: dict[str, Host] = {}
        self._ready = Ready(order, limits)
        self._resting: list[tuple[float, int, Host]] = []
        self._running: list[tuple[float, int, Host]] = []
        self._begun = 0

    def add(self, fetches: Iterable[Fetch]) -> None:
        """Puts fetches in line. Only while nothing waits."""
        given = list(fetches)
        self._ready.expect(given)
        for name, line in orders.lines(given, self.limits, self.order).items():
            host = self._hosts.setdefault(name, Host(len(self._hosts)))
            host.line.extend(line)
            host.seconds = fsum(fetch.seconds for fetch in line)
            self._ready.note(host)
            self._offer(host)

    def run(self) -> list[Run]:
        """Until nothing is left. Returns what was fetched, in the order in which it began."""
        runs: list[Run] = []
        while self._ready or self._resting or self._running:
            while self._resting and self._resting[0][0] <= self.now:
                self._ready.add(heappop(self._resting)[-1])
            while self._ready and self._has_room:
                runs.append(self._begin(self._ready.take()))
            self._pass_time()
        return runs

    @property
    def _has_room(self) -> bool:
        return len(self._running) < self.limits.slots

    def _begin(self, host: Host) -> Run:
        fetch = host.line.popleft()
        ends = self.now + self.took.get(fetch.key, fetch.seconds)
        host.seconds -= fetch.seconds
        self._ready.waiting_seconds -= fetch.seconds
        host.in_flight += 1
        host.ready_at = self.now + self.limits.gap_seconds
        self._begun += 1
        heappush(self._running, (ends, self._begun, host))
        self._ready.note(host)
        if host.in_flight < self.limits.in_flight:
            self._offer(host)
        return Run(fetch, self.now, ends)

    def _pass_time(self) -> None:
        """To the next end; or to the next host that may be asked, when that comes before and a slot is free."""
        next_end = self._running[0][0] if self._running else float("inf")
        if self._resting and self._has_room and self._resting[0][0] < next_end:
            self.now = self._resting[0][0]
            return
        self.now = max(self.now, next_end) if self._running else self.now
        while self._running and self._running[0][0] <= self.now:
            self._end(heappop(self._running)[-1])

    def _end(self, host: Host) -> None:
        was_full = host.in_flight == self.limits.in_flight
        host.in_flight -= 1
        if self.limits.gap_from is Gap.END:
            host.ready_at = self.now + self.limits.gap_seconds
        if was_full:
            self._offer(host)

    def _offer(self, host: Host) -> None:
        """Lets a host wait for its next turn, if it has anything to fetch."""
        if not host.line:
            return
        if host.ready_at <= self.now:
            self._ready.add(host)
        else:
            heappush(self._resting, (host.ready_at, host.place, host))
