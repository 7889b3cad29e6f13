"""1,597 feeds at 1,192 hosts with secret limits: the duration of a scan, and its effect on cached answers."""

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from feeds.schedule.order import PlannedFetch, PoolLimits, TimeBound, lower_bound
from tests.support.feed_populations import population
from tests.support.stack import Stack

from ..fetch import publication
from ..fetch.publication import Asked, Publishing
from ..figures import Figure, Note, median, percentile
from ..load.event_loop import run
from ..load.steady import ask_steadily
from ..mirror.feeder import SiteProcess
from ..peers import feeds as peers_feeds

SLOTS = 20
SITE = {"FETCH_SLOTS": str(SLOTS), "FEEDS_SCAN_SECONDS": "60"}
"""The interval of scans is that of every site. All else is as it is by default."""
SLOWEST_SECONDS = 29.0
"""Where the population has a timeout: just before ours."""
CACHED, CACHED_SECONDS = 4, 0.3
REQUESTS, RATE, CONNECTIONS = 2000, 500, 25
IDLE_ROUNDS = 2
MOST_SECONDS = 400.0
REFUSED, RATIO_FIRST, RATIO, P99_RATIO = 0.01, 1.3, 1.1, 1.5


@dataclass(slots=True)
class Run:
    """One scan of all feeds: seconds until the last was stored, and on average; requests meanwhile."""

    makespan_seconds: float
    mean_seconds: float
    bound: TimeBound
    empty: int
    failed: int
    asked: Sequence[Asked]
    p99s: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        return self.makespan_seconds / self.bound.seconds

    def share_of(self, status: int) -> float:
        return sum(one.status == status for one in self.asked) / len(self.asked)


def measure() -> Iterator[Figure | Note]:
    """Takes about twelve minutes; the others take eight of them at the most."""
    feeds = [replace(each, seconds=min(each.seconds, SLOWEST_SECONDS)) for each in population()]
    with ExitStack() as parts:
        folder = Path(parts.enter_context(tempfile.TemporaryDirectory(prefix="tarry-bench-")))
        with ExitStack() as site:
            hosts = site.enter_context(publication.running(folder / "asked", feeds))
            scanned = Scanned(site, hosts, feeds, folder)
            idle = scanned.idle()
            first = scanned.run()
            idle += scanned.idle()
            again = scanned.run()
            idle += scanned.idle()
        yield Note(f"{len(feeds):,} feeds at {len({each.host for each in feeds}):,} hosts, {SLOTS} slots")
        yield from _figures("the first time", first, RATIO_FIRST)
        yield from _figures("with timings", again, RATIO)
        yield Figure("feeds lost", first.empty, at_most=0)
        yield Figure("feeds that failed", max(first.failed, again.failed), at_most=0)
        yield Figure("bodies transferred the second time", sum(one.status == 200 for one in again.asked), at_most=0)
        during = first.p99s + again.p99s
        yield Note(f"p99 of a cached feed: {median(idle) * 1000:.1f} ms idle, {median(during) * 1000:.1f} ms during")
        yield Figure(
            "p99 of a cached feed during the scans ÷ idle, medians", median(during) / median(idle), at_most=P99_RATIO
        )
        yield from peers_feeds.compare(feeds, folder, again.makespan_seconds)


def _figures(name: str, found: Run, most: float) -> Iterator[Figure | Note]:
    yield Note(f"{name}: {found.makespan_seconds:.1f} s, at the least {found.bound.seconds:.1f} s: {found.bound.why}")
    yield Figure(f"makespan ÷ bound, {name}", found.ratio, at_most=most)
    yield Figure("  mean completion", found.mean_seconds, "s")
    yield Figure("  refused with 429 ÷ all requests", found.share_of(429), at_most=REFUSED)


def _pause() -> None:
    time.sleep(0.2)


def wait_until_back(process: SiteProcess, name: str, began: float, meanwhile: Callable[[], None] = _pause) -> None:
    """Waits until all feeds of that name have come back since then."""
    until = time.monotonic() + MOST_SECONDS
    while left := process.tell(["left", name, began]):
        if time.monotonic() > until:
            raise RuntimeError(f"{left} feeds have not come back")
        meanwhile()


class Scanned:
    """A site with these feeds, and some others that are cached. It ends with `site`."""

    def __init__(self, site: ExitStack, hosts: Publishing, feeds: Sequence[PlannedFetch], folder: Path) -> None:
        self._hosts = hosts
        self._feeds = feeds
        self._stack = site.enter_context(Stack(**SITE))
        self._process = site.enter_context(SiteProcess(self._stack, "benchmarks.feeds.scan_runs"))
        known = [PlannedFetch(str(number), f"cached{number}", CACHED_SECONDS) for number in range(CACHED)]
        others = site.enter_context(publication.running(folder / "cached", known))
        self._pages = [f"/feeds/{slug}.atom" for slug in self._process.tell(["add", others.urls, "cached"])]
        self._wait("cached", self._process.tell(["make_due", "cached"]))
        self._process.tell(["add", hosts.urls, "scanned"])
        self.p99()

    def run(self) -> Run:
        """Makes all of them due, and asks for cached ones until they have come back."""
        before = self._process.tell(["limits", self._hosts.urls])
        began = self._process.tell(["make_due", "scanned"])
        p99s = self._wait("scanned", began)
        ended = self._process.tell(["ended", "scanned"])
        least = lower_bound(*self._bounded(before, self._process.tell(["limits", self._hosts.urls])))
        asked = self._hosts.asked(began)
        took, mean = ended["last"] - began, ended["mean"] - began
        return Run(took, mean, least, ended["empty"], ended["failed"], asked, p99s)

    def idle(self) -> list[float]:
        """The p99 of some rounds while nothing is due."""
        return [self.p99() for _ in range(IDLE_ROUNDS)]

    def p99(self) -> float:
        """p99 of a cached feed, at a constant rate."""
        paths = [self._pages[number % CACHED] for number in range(REQUESTS)]
        timed = run(ask_steadily(self._stack.host, paths, rate=RATE, connections=CONNECTIONS))
        if any(one.visit.status != 200 for one in timed):
            raise RuntimeError("a cached feed was not served")
        return percentile([one.seconds for one in timed], 0.99)

    def _wait(self, name: str, began: float) -> list[float]:
        p99s = list[float]()
        meanwhile = (lambda: p99s.append(self.p99())) if name == "scanned" else _pause
        wait_until_back(self._process, name, began, meanwhile)
        return p99s

    def _bounded(
        self, *limits: Mapping[str, Sequence[float]]
    ) -> tuple[Sequence[PlannedFetch], PoolLimits, Mapping[str, PoolLimits]]:
        """The feeds, with the limits of each host: the widest that were in force, before or after."""
        fetches = [
            replace(each, host=url.split("/")[2]) for each, url in zip(self._feeds, self._hosts.urls, strict=True)
        ]
        known = {
            host: PoolLimits(SLOTS, int(max(each[host][0] for each in limits)), min(each[host][1] for each in limits))
            for host in limits[0]
        }
        return fetches, PoolLimits(SLOTS), known
