"""The frontier against origins in simulated time: every call is real, only the clock is not."""

import heapq
from collections.abc import Callable, Mapping
from itertools import count

from resources.fetching.queues import frontier
from resources.fetching.queues.frontier import End
from resources.fetching.queues.jobs import Claimed, Doomed, Idle, Job, Report, Verdict, Wish
from retry import connections
from tests.resources.fetching.clock import Clock
from tests.resources.fetching.queues.origins import Origin

REPLY_SECONDS = 0.02
"""How soon a refusal is answered."""


class Simulation:
    """One fetcher with so many slots, and backlogs that never end."""

    def __init__(self, clock: Clock, origins: Mapping[str, Origin], *, slots: int = 200, backlog: int = 20) -> None:
        self.clock, self.origins = clock, origins
        self.slots, self._busy, self._numbers, self._order = slots, 0, count(), count()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._asleep_until = 0.0
        self.doomed: list[Doomed] = []
        for host in origins:
            for _ in range(backlog):
                self.add(host)

    def add(self, host: str) -> None:
        url = f"https://{host}/{next(self._numbers)}"
        connections.run(frontier.enqueue(Job(url, url, Wish("w"))))

    def at(self, seconds: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._events, (seconds, next(self._order), act))

    def run_until(self, end: float) -> None:
        self.at(self.clock.seconds, self._claim)
        while self._events and self._events[0][0] <= end:
            self.clock.seconds, _, act = heapq.heappop(self._events)
            act()
        self.clock.seconds = end

    def _claim(self) -> None:
        while self._busy < self.slots:
            match connections.run(frontier.claim("w", "m")):
                case Claimed() as job:
                    self._send(job)
                case Doomed() as doomed:
                    self.doomed.append(doomed)
                    connections.run(frontier.finish(doomed.job))
                case Idle(wait_seconds):
                    self.at(self.clock.seconds + max(wait_seconds, 0.001), self._wake)
                    return

    def _wake(self) -> None:
        if self.clock.seconds >= self._asleep_until:
            self._asleep_until = self.clock.seconds + 0.001
            self._claim()

    def _send(self, job: Claimed) -> None:
        self._busy += 1
        origin = self.origins[job.host]
        served = origin.take(self.clock.seconds)
        latency = origin.latency if served else REPLY_SECONDS
        self.at(self.clock.seconds + latency, lambda: self._came(job, served, latency))

    def _came(self, job: Claimed, served: bool, latency: float) -> None:
        self._busy -= 1
        origin = self.origins[job.host]
        origin.left()
        if served:
            report = Report(Verdict.OK, latency, "200")
            self.add(job.host)
        else:
            report = Report(Verdict.THROTTLED, latency, "429", retry_after_seconds=origin.retry_after)
        connections.run(frontier.report(job, "m", report, End(job.version)))
        self._claim()
