"""Simulates a pool of slots that never idles while a fetch is allowed.

It compares orders, plain batches too, and predicts a scan: with expected durations the start of each fetch, with
recorded ones the time that another order would have taken.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from math import fsum
from statistics import fmean

from . import order
from .order import FetchOrder, GapFrom, HostLine, PlannedFetch, PoolLimits, ReadyHosts, TimeBound, lower_bound

MAX_COUNTED_TIMINGS = 20
UNKNOWN_FETCH_SECONDS = 1.0
"""The expected duration before anything was fetched. Any number does: only the order depends on it."""


def mean_of_timings(timings: Sequence[float]) -> float | None:
    """The mean of a feed's last timings, oldest first, in seconds; None without any.

    They are to be complete: of fetches that ran until the answer or their deadline. One that was cut off by us,
    postponed, or never sent tells nothing of the feed.
    """
    return fmean(timings[-MAX_COUNTED_TIMINGS:]) if timings else None


@dataclass(frozen=True, slots=True)
class FetchRun:
    """One simulated fetch: its start and end, in seconds from the beginning."""

    fetch: PlannedFetch
    began: float
    ended: float


@dataclass(frozen=True, slots=True)
class PoolReplay:
    """The result of a simulation: all runs, in the order of their starts."""

    runs: tuple[FetchRun, ...]

    @property
    def makespan_seconds(self) -> float:
        return max((run.ended for run in self.runs), default=0.0)

    @property
    def mean_completion_seconds(self) -> float:
        return fsum(run.ended for run in self.runs) / len(self.runs) if self.runs else 0.0


def replay_pool(
    fetches: Iterable[PlannedFetch], limits: PoolLimits, order: FetchOrder, took: Mapping[str, float] | None = None
) -> PoolReplay:
    """Simulates the fetches, all handed over at once.

    The order goes by expected durations; `took` has the real ones, by key, where they differ.
    """
    pool = FetchPool(limits, order, took or {})
    pool.add(fetches)
    return PoolReplay(tuple(pool.run()))


class FetchPool:
    """Slots, hosts and a clock that jumps from event to event. Fetches added later find hosts in their state then."""

    def __init__(self, limits: PoolLimits, order: FetchOrder, took: Mapping[str, float]) -> None:
        self.limits = limits
        self.order = order
        self.took = took
        self.now = 0.0
        self._hosts: dict[str, HostLine] = {}
        self._ready = ReadyHosts(order, limits)
        self._resting: list[tuple[float, int, HostLine]] = []
        self._running: list[tuple[float, int, HostLine]] = []
        self._begun = 0

    def add(self, fetches: Iterable[PlannedFetch]) -> None:
        """Puts fetches in line. Only while nothing waits."""
        given = list(fetches)
        self._ready.expect(given)
        for name, line in order.line_up_fetches(given, self.limits, self.order).items():
            host = self._hosts.setdefault(name, HostLine(len(self._hosts)))
            host.line.extend(line)
            host.seconds = fsum(fetch.seconds for fetch in line)
            self._offer(host)

    def run(self) -> list[FetchRun]:
        """Runs until no fetch is left. Returns all runs in the order of their starts."""
        runs: list[FetchRun] = []
        while self._ready or self._resting or self._running:
            while self._resting and self._resting[0][0] <= self.now:
                self._ready.add(heappop(self._resting)[-1], self.now)
            while self._ready and self._has_room:
                runs.append(self._begin(self._ready.take()))
            self._pass_time()
        return runs

    @property
    def _has_room(self) -> bool:
        return len(self._running) < self.limits.slots

    def _begin(self, host: HostLine) -> FetchRun:
        fetch = host.line.popleft()
        ends = self.now + self.took.get(fetch.key, fetch.seconds)
        host.seconds -= fetch.seconds
        host.in_flight += 1
        host.ready_at = self.now + self.limits.gap_seconds
        self._begun += 1
        heappush(self._running, (ends, self._begun, host))
        if host.in_flight < self.limits.in_flight:
            self._offer(host)
        return FetchRun(fetch, self.now, ends)

    def _pass_time(self) -> None:
        """Jumps to the next end; or to the next host that becomes ready, if that is earlier and a slot is free."""
        next_end = self._running[0][0] if self._running else float("inf")
        if self._resting and self._has_room and self._resting[0][0] < next_end:
            self.now = self._resting[0][0]
            return
        self.now = max(self.now, next_end) if self._running else self.now
        while self._running and self._running[0][0] <= self.now:
            self._end(heappop(self._running)[-1])

    def _end(self, host: HostLine) -> None:
        was_full = host.in_flight == self.limits.in_flight
        host.in_flight -= 1
        if self.limits.gap_from is GapFrom.END:
            host.ready_at = self.now + self.limits.gap_seconds
        if was_full:
            self._offer(host)

    def _offer(self, host: HostLine) -> None:
        """Lets a host wait for its next turn, if it has anything to fetch."""
        if not host.line:
            return
        if host.ready_at <= self.now:
            self._ready.add(host, self.now)
        else:
            heappush(self._resting, (host.ready_at, host.place, host))


def replay_batches(
    fetches: Sequence[PlannedFetch], limits: PoolLimits, *, is_ordered: bool, took: Mapping[str, float] | None = None
) -> PoolReplay:
    """Replays the fetches in batches of one per slot, as given or the shortest first, under the limits of hosts."""
    line = sorted(fetches, key=lambda fetch: fetch.seconds) if is_ordered else fetches
    pool = FetchPool(limits, FetchOrder.GIVEN, took or {})
    runs: list[FetchRun] = []
    for place in range(0, len(line), limits.slots):
        pool.add(line[place : place + limits.slots])
        runs += pool.run()
    return PoolReplay(tuple(runs))


@dataclass(frozen=True, slots=True)
class FeedPlan:
    """The fetches in the order of their starts, the bound, and replays of the same fetches in other orders.

    `replay.runs[n]` has the ordinal n + 1. Handed over in that order, the fetches of each host are in the right line.
    `batches` have one fetch per slot; `ordered_batches` take the shortest first.
    """

    replay: PoolReplay
    bound: TimeBound
    longest_first: PoolReplay
    shortest_first: PoolReplay
    ordered_batches: PoolReplay
    batches: PoolReplay

    def ratio(self, replay: PoolReplay) -> float:
        """Its makespan ÷ the bound; 1 without fetches."""
        return replay.makespan_seconds / self.bound.seconds if self.bound.seconds else 1.0


def plan_fetches(
    fetches: Sequence[PlannedFetch], limits: PoolLimits, took: Mapping[str, float] | None = None
) -> FeedPlan:
    """Plans those fetches. With the real durations `took`, by key, the replays and the bound are those of the past."""
    real = took or {}
    as_taken = [replace(each, seconds=real.get(each.key, each.seconds)) for each in fetches]
    return FeedPlan(
        replay=replay_pool(fetches, limits, FetchOrder.DECISIVE_CHAIN, took),
        bound=lower_bound(as_taken, limits),
        longest_first=replay_pool(fetches, limits, FetchOrder.LONGEST_CHAIN, took),
        shortest_first=replay_pool(fetches, limits, FetchOrder.SHORTEST, took),
        ordered_batches=replay_batches(fetches, limits, is_ordered=True, took=took),
        batches=replay_batches(fetches, limits, is_ordered=False, took=took),
    )
