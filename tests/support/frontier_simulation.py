"""The frontier in simulated time: every call is real, only the clock is not.

`Simulation` has origins with secret limits, `Fetcher` jobs that come at random into queues with few workers.
"""

import heapq
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from random import Random

from feeds.schedule.order import PlannedFetch
from resources.fetch.frontier import jobs, queue
from resources.fetch.frontier.queue import EndJob
from resources.fetch.worker.engine import Slot, SlotPool
from retry import stores

from .frontier import claim
from .frontier_clock import Clock
from .simulated_origin import Origin

HOST = "files.example.com"
REPLY_SECONDS = 0.02
"""The time after which a refusal is answered."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """The arrival of a job, and its duration."""

    at: float
    seconds: float


def poisson(per_second: float, seconds: float, number: int, seed: int) -> list[Arrival]:
    """So many arrivals with independent gaps, all of the same duration."""
    random, at = Random(seed), 0.0
    arrivals = []
    for _ in range(number):
        at += random.expovariate(per_second)
        arrivals.append(Arrival(at, seconds))
    return arrivals


def merged(*streams: Sequence[Arrival]) -> list[Arrival]:
    """One stream, which ends with the shortest: later jobs would find less beside them."""
    end = min(stream[-1].at for stream in streams)
    arrivals = (arrival for stream in streams for arrival in stream if arrival.at <= end)
    return sorted(arrivals, key=lambda arrival: arrival.at)


def waits_by_recursion(arrivals: Sequence[Arrival], workers: int) -> list[float]:
    """The wait of each in order of arrival (Kiefer, Wolfowitz 1955; Lindley 1952)."""
    free = [0.0] * workers
    waits = []
    for arrival in arrivals:
        begins = max(arrival.at, heapq.heappop(free))
        heapq.heappush(free, begins + arrival.seconds)
        waits.append(begins - arrival.at)
    return waits


class Fetcher:
    """The frontier's queues and a fetcher's places; only the clock is not real. Origins refuse nothing."""

    def __init__(self, clock: Clock, places: int) -> None:
        self._clock, self._slots, self._order = clock, SlotPool(places, lambda: clock.seconds), count()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._arrivals: dict[str, Arrival] = {}
        self._waits: dict[Arrival, float] = {}
        stores.run_steps(queue.set_limits(HOST, jobs.DomainLimits(delay_seconds=0, in_flight=8)))

    def waits(self, arrivals: Sequence[Arrival], lane: Callable[[Arrival], jobs.FetchLane]) -> list[float]:
        """The wait of each until it is begun, once all are done."""
        start = self._clock.seconds
        for arrival in arrivals:
            self._at(start + arrival.at, lambda arrival=arrival: self._come(arrival, lane(arrival)))  # type: ignore[misc]
        while self._events:
            self._clock.seconds, _, act = heapq.heappop(self._events)
            act()
            self._claim()
        return [self._waits[arrival] - start for arrival in arrivals]

    def _at(self, seconds: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._events, (seconds, next(self._order), act))

    def _come(self, arrival: Arrival, lane: jobs.FetchLane) -> None:
        url = f"https://{HOST}/{next(self._order)}"
        self._arrivals[url] = arrival
        stores.run_steps(queue.enqueue_job(jobs.FetchJob(url, url, jobs.Waiter("w"), lane=lane)))

    def _claim(self) -> None:
        while lanes := list(self._slots.rooms):
            job = claim(*lanes)
            if not isinstance(job, jobs.ClaimedJob):
                return
            arrival, place = self._arrivals[job.url], self._slots.take(job.lane)
            self._waits[arrival] = self._clock.seconds - arrival.at
            self._at(self._clock.seconds + arrival.seconds, lambda job=job, place=place: self._end(job, place))  # type: ignore[misc]

    def _end(self, job: jobs.ClaimedJob, place: Slot) -> None:
        stores.run_steps(
            queue.report_and_finish_work(
                job, "m", jobs.RequestReport(jobs.RateVerdict.OK, 0.01, "200"), EndJob(job.version)
            )
        )
        place.leave()


def drain(clock: Clock, fetches: Sequence[PlannedFetch], slots: int, machines: int = 1) -> list[float]:
    """Has all of them fetched with so many slots, shared by the fetchers of machines, as the frontier hands them out.

    Returns their ends, in seconds from now.
    """
    took = {f"https://{fetch.host}/{fetch.key}": fetch.seconds for fetch in fetches}
    waiter, names = jobs.Waiter("w"), [f"m{number}:w" for number in range(machines)]
    for name in names:
        stores.run_steps(queue.sign_in_fetcher(name))
    stores.run_together(
        [queue.enqueue_job(jobs.FetchJob(url, url, waiter, expected_seconds=took[url])) for url in took]
    )
    start, order, ends = clock.seconds, count(), list[float]()
    busy: list[tuple[float, int, str, jobs.ClaimedJob]] = []
    free = dict.fromkeys(names, slots // machines)
    while len(ends) < len(took):
        wake_at = math.inf
        for name in names:
            for found in _claim_for(name, free[name]):
                match found:
                    case jobs.ClaimedJob() as job:
                        free[name] -= 1
                        heapq.heappush(busy, (clock.seconds + took[job.url], next(order), name, job))
                    case jobs.NothingDue(wait_seconds):
                        wake_at = min(wake_at, clock.seconds + max(wait_seconds, 0.001))
        clock.seconds = min(wake_at, busy[0][0] if busy else math.inf)
        while busy and busy[0][0] <= clock.seconds:
            *_, name, ended = heapq.heappop(busy)
            free[name] += 1
            report = jobs.RequestReport(jobs.RateVerdict.OK, 0.01, "200")
            stores.run_steps(queue.report_and_finish_work(ended, name, report, EndJob(ended.version)))
            ends.append(clock.seconds - start)
    return ends


def _claim_for(fetcher: str, free: int) -> list[jobs.ClaimedJob | jobs.DeadJob | jobs.NothingDue]:
    machine = fetcher.partition(":")[0]
    return stores.run_steps(queue.claim_jobs(fetcher, machine, free, {"fast": free})) if free else []


class Simulation:
    """One fetcher with so many slots, and backlogs that never end."""

    def __init__(self, clock: Clock, origins: Mapping[str, Origin], *, slots: int = 200) -> None:
        self.clock, self.origins = clock, origins
        self.slots, self._busy, self._numbers, self._order = slots, 0, count(), count()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._asleep_until = 0.0
        self._backlogs = dict.fromkeys(origins, 0)
        for host in origins:
            self._fill(host)

    def _fill(self, host: str) -> None:
        """Keeps 20 to 100 jobs in the host's queue, or in flight."""
        if self._backlogs[host] <= 20:
            urls = [f"https://{host}/{next(self._numbers)}" for _ in range(80)]
            stores.run_together([queue.enqueue_job(jobs.FetchJob(url, url, jobs.Waiter("w"))) for url in urls])
            self._backlogs[host] += len(urls)

    def at(self, seconds: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._events, (seconds, next(self._order), act))

    def run_until(self, end: float) -> None:
        self.at(self.clock.seconds, self._claim)
        while self._events and self._events[0][0] <= end:
            self.clock.seconds, _, act = heapq.heappop(self._events)
            act()
        self.clock.seconds = end

    def _claim(self) -> None:
        free = self.slots - self._busy
        for found in stores.run_steps(queue.claim_jobs("w", "m", free, dict.fromkeys(jobs.FETCH_LANES, free))):
            match found:
                case jobs.ClaimedJob() as job:
                    self._send(job)
                case jobs.NothingDue(wait_seconds):
                    self.at(self.clock.seconds + max(wait_seconds, 0.001), self._wake)
                case jobs.DeadJob():
                    raise AssertionError("no origin fails for so long")

    def _wake(self) -> None:
        if self.clock.seconds >= self._asleep_until:
            self._asleep_until = self.clock.seconds + 0.001
            self._claim()

    def _send(self, job: jobs.ClaimedJob) -> None:
        self._busy += 1
        origin = self.origins[job.host]
        served = origin.take(self.clock.seconds)
        latency = origin.latency if served else REPLY_SECONDS
        self.at(self.clock.seconds + latency, lambda: self._came(job, served, latency))

    def _came(self, job: jobs.ClaimedJob, served: bool, latency: float) -> None:
        self._busy -= 1
        origin = self.origins[job.host]
        origin.left()
        if served:
            report = jobs.RequestReport(jobs.RateVerdict.OK, latency, "200")
            self._backlogs[job.host] -= 1
            self._fill(job.host)
        else:
            report = jobs.RequestReport(
                jobs.RateVerdict.THROTTLED, latency, "429", retry_after_seconds=origin.retry_after
            )
        stores.run_steps(queue.report_and_finish_work(job, "m", report, EndJob(job.version)))
        self._claim()


TRIP_SECONDS = 0.004
"""The time from a fetcher to an origin and back."""


@dataclass(slots=True)
class LimitedScan:
    """One fetcher with so many slots, and feeds at hosts that refuse more than `limit` requests at once (0: none)."""

    clock: Clock
    slots: int
    limit: int
    pause_seconds: float = 1.0
    asked: int = 0
    refused: int = 0
    _took: dict[str, float] = field(default_factory=dict)
    _events: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _at_once: Counter[str] = field(default_factory=Counter)
    _order: Iterator[int] = field(default_factory=count)
    _free: int = 0
    _left: int = 0

    def run(self, fetches: Sequence[PlannedFetch]) -> float:
        """Has all of them fetched. Returns the seconds until the last has come."""
        self._took = {f"https://{fetch.host}/{fetch.key}": fetch.seconds for fetch in fetches}
        waiter, began = jobs.Waiter("w"), self.clock.seconds
        stores.run_together(
            [
                queue.enqueue_job(jobs.FetchJob(url, url, waiter, expected_seconds=took))
                for url, took in self._took.items()
            ]
        )
        self.asked = self.refused = 0
        self._free, self._left, self._events = self.slots, len(fetches), []
        self._claim()
        while self._left:
            self.clock.seconds, _, act = heapq.heappop(self._events)
            act()
            self._claim()
        return self.clock.seconds - began

    def _after(self, seconds: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.clock.seconds + seconds, next(self._order), act))

    def _claim(self) -> None:
        for found in _claim_for("m:w", self._free):
            match found:
                case jobs.ClaimedJob() as job:
                    self._free -= 1
                    self._after(TRIP_SECONDS / 2, partial(self._arrive, job))
                case jobs.NothingDue(wait_seconds):
                    self._after(max(wait_seconds, 0.001), lambda: None)

    def _arrive(self, job: jobs.ClaimedJob) -> None:
        self.asked += 1
        if self._at_once[job.host] >= self.limit > 0:
            self.refused += 1
            report = jobs.RequestReport(jobs.RateVerdict.THROTTLED, TRIP_SECONDS, "429", self.pause_seconds)
            self._after(TRIP_SECONDS / 2, partial(self._report, job, report))
            return
        self._at_once[job.host] += 1
        self._after(self._took[job.url], partial(self._answer, job))

    def _answer(self, job: jobs.ClaimedJob) -> None:
        self._at_once[job.host] -= 1
        report = jobs.RequestReport(jobs.RateVerdict.OK, self._took[job.url] + TRIP_SECONDS, "200")
        self._after(TRIP_SECONDS / 2, partial(self._report, job, report))

    def _report(self, job: jobs.ClaimedJob, report: jobs.RequestReport) -> None:
        self._free += 1
        self._left -= report.verdict is jobs.RateVerdict.OK
        stores.run_steps(queue.report_and_finish_work(job, "m", report, EndJob(job.version)))
