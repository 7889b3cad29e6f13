"""The cost of a whole fetcher: pages a second from claim to content, against a plain loop of aiohttp.

One loop does the same work, another only reads the pages.
"""

import asyncio
import itertools
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import aiohttp

from tests.support.stack import Stack

from ..figures import Figure, Note, median
from ..load.event_loop import run
from ..machine import cpu_seconds
from ..mirror.feeder import Feeder, SiteProcess
from . import fast_origin

PAGES, PAGE_BYTES = 2_000, 10_000
DOMAINS = 100
AT_ONCE = 100
"""A fetcher's places."""
ROUNDS = 21
LOOK_SECONDS = 0.002
"""Between looks for the end of a round."""
UNLOOKED = 0.8
"""The share of the shortest round so far before the first look: looks cost time of the same cores."""
SHARE, READING_SHARE = 0.6, 0.4
POLITE_TO_ALL = {"FETCH_DELAY_SECONDS": "0.001", "FETCH_IN_FLIGHT": "8", "FETCH_BYTES_PER_SECOND": "0"}
"""The gap and the number in flight are the ceilings too: so many domains allow more than a fetcher does."""


@dataclass(frozen=True, slots=True)
class Round:
    """Pages a second, and the CPU time of the process that gets them, for a page."""

    rate: float
    cpu_seconds: float


def measure() -> Iterator[Figure | Note]:
    """All ask the same origin in another process, each time in another order."""
    addresses = [f"127.2.0.{number}" for number in range(1, DOMAINS + 1)]
    with (
        fast_origin.origins(PAGE_BYTES, addresses) as hosts,
        Stack(BACKLOG_LIMIT="100000", **POLITE_TO_ALL) as stack,
        Feeder(stack) as feeder,
        SiteProcess(stack, "benchmarks.peers.plain_loop") as plain,
    ):
        asked = Pages(stack, hosts)
        ways: list[Callable[[], Round]] = [
            lambda: _fetcher(asked, feeder),
            lambda: _plain(asked, plain),
            lambda: run(_reading(asked.urls())),
        ]
        for way in ways:
            way()
        rounds = [_in_turn(ways, place) for place in range(ROUNDS)]
    whole, same, reading = ([one[side] for one in rounds] for side in range(3))
    ratios = [ours.rate / theirs.rate for ours, theirs in zip(whole, same, strict=True)]
    yield Note(f"rounds of {PAGES:,} pages of {PAGE_BYTES:,} bytes of {DOMAINS} domains, {AT_ONCE} at a time")
    yield Note(f"ratios {min(ratios):.2f} to {max(ratios):.2f}")
    for name, side in (("a fetcher", whole), ("a plain loop that does the same", same), ("a loop that reads", reading)):
        yield Figure(f"pages a second by {name}, median", median([one.rate for one in side]), "/s")
        yield Figure(f"CPU time of a page in {name}, median", median([one.cpu_seconds * 1000 for one in side]), "ms")
    yield Figure("pages a second, fetcher ÷ loop that does the same, median of pairs", median(ratios), at_least=SHARE)
    yield _median_of("CPU time of a page, loop that does the same ÷ fetcher, median of pairs", _cpu(same, whole))
    rates = [ours.rate / theirs.rate for ours, theirs in zip(whole, reading, strict=True)]
    name = "pages a second, fetcher ÷ loop that only reads, median of pairs"
    yield Figure(name, median(rates), at_least=READING_SHARE)


class Pages:
    """The requested pages, each time other ones; the cache has nothing left of the time before."""

    def __init__(self, stack: Stack, hosts: Sequence[str]) -> None:
        self.stack = stack
        self._hosts = hosts
        self._numbers = itertools.count()
        self.shortest_seconds = 0.0

    def urls(self) -> list[str]:
        self.stack.cache.flushdb()
        return [f"http://{self._hosts[n % DOMAINS]}/{next(self._numbers)}" for n in range(PAGES)]


def _in_turn(ways: Sequence[Callable[[], Round]], place: int) -> list[Round]:
    """A round of each, beginning with another one each time."""
    found = {}
    for step in range(len(ways)):
        side = (place + step) % len(ways)
        found[side] = ways[side]()
    return [found[side] for side in range(len(ways))]


def _fetcher(pages: Pages, feeder: Feeder) -> Round:
    """The stack's one, which stands still until there is enough to do; until the last content is stored."""
    stack = pages.stack
    pid = stack.pid("fetch")
    stack.freeze("fetch")
    if feeder.feed(pages.urls()):
        raise RuntimeError("there was no room for some pages")
    used, began = cpu_seconds([pid]), time.perf_counter()
    stack.signal("fetch", signal.SIGCONT)
    time.sleep(UNLOOKED * pages.shortest_seconds)
    took = _wait_for_end(stack) - began
    pages.shortest_seconds = min(pages.shortest_seconds or took, took)
    return Round(PAGES / took, (cpu_seconds([pid]) - used) / PAGES)


def _wait_for_end(stack: Stack) -> float:
    """Returns the moment at which all is fetched, by time.perf_counter, to a hundredth of a round."""
    until = time.perf_counter() + 60
    while stack.state.exists("retry:{0}:claims", "retry:{0}:leases", "fetch:{0}:leases"):
        if time.perf_counter() > until:
            raise RuntimeError("not all is fetched within a minute")
        time.sleep(LOOK_SECONDS)
    return time.perf_counter()


def _plain(pages: Pages, plain: SiteProcess) -> Round:
    told = plain.tell(pages.urls())
    return Round(PAGES / told["seconds"], told["cpu_seconds"] / PAGES)


async def _reading(urls: Sequence[str]) -> Round:
    """By aiohttp in this process, which reads the pages and forgets them."""
    left = iter(urls)
    async with aiohttp.ClientSession() as session:

        async def work() -> int:
            total = 0
            for url in left:
                async with session.get(url) as response:
                    total += len(await response.read())
            return total

        began, used = time.perf_counter(), time.process_time()
        if sum(await asyncio.gather(*(work() for _ in range(AT_ONCE)))) != PAGES * PAGE_BYTES:
            raise RuntimeError("a page did not come")
        return Round(PAGES / (time.perf_counter() - began), (time.process_time() - used) / PAGES)


def _cpu(theirs: Sequence[Round], ours: Sequence[Round]) -> list[float]:
    return [one.cpu_seconds / other.cpu_seconds for one, other in zip(theirs, ours, strict=True)]


def _median_of(name: str, values: list[float]) -> Figure:
    return Figure(name, median(values))
