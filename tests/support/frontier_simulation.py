"""Jobs that come at random into queues with few workers, in simulated time: by the frontier and the fetcher's places,
and as queueing theory has it, for the same arrivals."""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from random import Random

from resources.fetching.fetcher.slots import Place, Slots
from resources.fetching.queues import frontier
from resources.fetching.queues.frontier import End
from resources.fetching.queues.jobs import Claimed, Job, Lane, Limits, Report, Verdict, Wish
from retry import connections
from tests.resources.fetching.clock import Clock

HOST = "files.example.com"


@dataclass(frozen=True, slots=True)
class Arrival:
    """When a job comes, and how long it takes."""

    at: float
    seconds: float


def poisson(per_second: float, seconds: float, number: int, seed: int) -> list[Arrival]:
    """So many arrivals with gaps that know nothing of each other, all of them as long."""
    random, at = Random(seed), 0.0
    arrivals = []
    for _ in range(number):
        at += random.expovariate(per_second)
        arrivals.append(Arrival(at, seconds))
    return arrivals


def merged(*streams: Sequence[Arrival]) -> list[Arrival]:
    """One stream, which ends with the shortest: what comes later would find less beside it."""
    end = min(stream[-1].at for stream in streams)
    arrivals = (arrival for stream in streams for arrival in stream if arrival.at <= end)
    return sorted(arrivals, key=lambda arrival: arrival.at)


def waits_by_recursion(arrivals: Sequence[Arrival], workers: int) -> list[float]:
    """How long each waits where the first that comes is served first (Kiefer, Wolfowitz 1955; Lindley 1952)."""
    free = [0.0] * workers
    waits = []
    for arrival in arrivals:
        begins = max(arrival.at, heapq.heappop(free))
        heapq.heappush(free, begins + arrival.seconds)
        waits.append(begins - arrival.at)
    return waits


def mean_wait(per_second: float, seconds: float) -> float:
    """Of M/D/1: Pollaczek–Khinchine, for jobs that all take as long."""
    load = per_second * seconds
    return load * seconds / (2 * (1 - load))


class Fetcher:
    """The frontier's queues and a fetcher's places; only the clock is not real. Origins refuse nothing."""

    def __init__(self, clock: Clock, places: int) -> None:
        self._clock, self._slots, self._order = clock, Slots(places, lambda: clock.seconds), count()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._arrivals: dict[str, Arrival] = {}
        self._waits: dict[Arrival, float] = {}
        connections.run(frontier.set_limits(HOST, Limits(delay_seconds=0, in_flight=8)))

    def waits(self, arrivals: Sequence[Arrival], lane: Callable[[Arrival], Lane]) -> list[float]:
        """How long each waits until it is begun, once all are done."""
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

    def _come(self, arrival: Arrival, lane: Lane) -> None:
        url = f"https://{HOST}/{next(self._order)}"
        self._arrivals[url] = arrival
        connections.run(frontier.enqueue(Job(url, url, Wish("w"), lane=lane)))

    def _claim(self) -> None:
        while lanes := list(self._slots.rooms):
            job = connections.run(frontier.claim("w", "m", lanes))
            if not isinstance(job, Claimed):
                return
            arrival, place = self._arrivals[job.url], self._slots.take(job.lane)
            self._waits[arrival] = self._clock.seconds - arrival.at
            self._at(self._clock.seconds + arrival.seconds, lambda job=job, place=place: self._end(job, place))  # type: ignore[misc]

    def _end(self, job: Claimed, place: Place) -> None:
        connections.run(frontier.report(job, "m", Report(Verdict.OK, 0.01, "200"), End(job.version)))
        place.leave()
