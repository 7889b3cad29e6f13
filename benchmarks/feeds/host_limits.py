"""1,597 feeds at hosts with hidden limits of requests in flight: two scans each, against the origin's own bound."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from feeds.schedule.order import PlannedFetch, PoolLimits, TimeBound, lower_bound
from tests.support.feed_populations import HOST_SIZES, population
from tests.support.stack import Stack

from ..fetch import publication
from ..fetch.publication import Asked, Publishing
from ..figures import Figure, Note
from ..mirror.feeder import SiteProcess
from .scan import SITE, SLOTS, SLOWEST_SECONDS, wait_until_back

MOST_IN_FLIGHT, LEAST_GAP_SECONDS = 4, 0.1
"""The ceilings of politeness, by default: they are part of the bound."""
IN_A_ROW_SECONDS = 25.0
RUNS = ("the first time", "the second time")


@dataclass(frozen=True, slots=True)
class Case:
    """Feeds, the hidden limit of each of their hosts (0: none), and the bounds of the second run."""

    name: str
    feeds: Sequence[PlannedFetch]
    limit: int
    ratio: float
    refused: float | None = None

    @property
    def limits(self) -> PoolLimits:
        return PoolLimits(SLOTS, min(self.limit or MOST_IN_FLIGHT, MOST_IN_FLIGHT), LEAST_GAP_SECONDS)


@dataclass(frozen=True, slots=True)
class Run:
    """One scan: its seconds, the origin's bound, that of the scan's row, and the requests that the origin saw."""

    makespan_seconds: float
    bound: TimeBound
    shown_seconds: float
    lost: int
    asked: Sequence[Asked]

    @property
    def refused(self) -> float:
        return sum(one.status == 429 for one in self.asked) / len(self.asked)


def measure() -> Iterator[Figure | Note]:
    for case in list_cases():
        with tempfile.TemporaryDirectory(prefix="tarry-bench-") as folder:
            runs = _run_twice(case, Path(folder))
        for run, name in zip(runs, RUNS, strict=True):
            yield from _list_figures(case, run, name, is_bounded=run is runs[-1])


def list_cases() -> list[Case]:
    feeds = [replace(each, seconds=min(each.seconds, SLOWEST_SECONDS)) for each in population()]
    return [
        Case("one host with 160 feeds, 1 in flight", _feeds_in_a_row(), 1, 1.1),
        Case("1 in flight", feeds, 1, 1.15, 0.005),
        Case("2 in flight", feeds, 2, 1.1, 0.005),
        Case("unlimited", feeds, 0, 1.3, 0.0),
    ]


def _feeds_in_a_row() -> list[PlannedFetch]:
    """As many feeds as the largest host has, that take IN_A_ROW_SECONDS one after the other."""
    feeds = [each for each in population() if each.host == "host0.example" and each.seconds < 10]
    feeds = [replace(feeds[number % len(feeds)], key=str(number)) for number in range(HOST_SIZES[0])]
    share = IN_A_ROW_SECONDS / sum(each.seconds for each in feeds)
    return [replace(each, seconds=each.seconds * share) for each in feeds]


def _list_figures(case: Case, run: Run, name: str, *, is_bounded: bool) -> Iterator[Figure | Note]:
    took, least = run.makespan_seconds, run.bound
    yield Note(f"{case.name}, {name}: {took:.1f} s, at the least {least.seconds:.1f} s: {least.why}")
    yield Figure(
        f"{case.name}: makespan ÷ the origin's bound, {name}",
        took / least.seconds,
        at_most=case.ratio if is_bounded else None,
    )
    yield Figure("  refused with 429 ÷ all requests", run.refused, at_most=case.refused if is_bounded else None)
    yield Figure("  the bound shown for the scan ÷ makespan", run.shown_seconds / took, at_most=1)
    yield Figure("  feeds lost", run.lost, at_most=0)


def _run_twice(case: Case, folder: Path) -> list[Run]:
    with ExitStack() as parts:
        hosts = parts.enter_context(publication.running(folder / "asked", case.feeds, case.limit))
        stack = parts.enter_context(Stack(**SITE))
        process = parts.enter_context(SiteProcess(stack, "benchmarks.feeds.scan_runs"))
        process.tell(["add", hosts.urls, "limited"])
        return [_run(case, hosts, process) for _ in RUNS]


def _run(case: Case, hosts: Publishing, process: SiteProcess) -> Run:
    began = process.tell(["make_due", "limited"])
    wait_until_back(process, "limited", began)
    ended, shown = process.tell(["ended", "limited"]), process.tell(["shown_bound", began])
    least = lower_bound(case.feeds, case.limits)
    took = ended["last"] - began
    return Run(took, least, shown, ended["empty"] + ended["failed"], hosts.asked(began))
