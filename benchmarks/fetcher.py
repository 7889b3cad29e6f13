"""What a whole fetcher costs: pages a second from claim to content, against aiohttp doing nothing but read them."""

import asyncio
import itertools
import signal
import time
from collections.abc import Iterator, Sequence

import aiohttp

from benchmarks import fast_origin
from benchmarks.feeding import Feeder
from benchmarks.figures import Figure, Note, median
from benchmarks.processes import cpu_seconds
from benchmarks.running import run
from tests.flows.stack import Stack, eventually

PAGES, PAGE_BYTES = 2_000, 10_000
DOMAINS = 100
AT_ONCE = 80
"""A fetcher's places in the fast lane."""
ROUNDS = 11
POLITE_TO_ALL = {"FETCH_DELAY_SECONDS": "0.001", "FETCH_IN_FLIGHT": "8", "FETCH_BYTES_PER_SECOND": "0"}
"""So many domains, each with its least gap of 20 ms: 5,000 requests a second are allowed."""


def measure() -> Iterator[Figure | Note]:
    """Both ask the same origin in another process, each time in the other order."""
    addresses = [f"127.2.0.{number}" for number in range(1, DOMAINS + 1)]
    with (
        fast_origin.origins(PAGE_BYTES, addresses) as hosts,
        Stack(BACKLOG_LIMIT="100000", **POLITE_TO_ALL) as stack,
        Feeder(stack) as feeder,
    ):
        fetcher = _Fetcher(stack, feeder, hosts)
        fetcher.round()
        rounds = [_pair(fetcher, hosts, place) for place in range(ROUNDS)]
    ratios = [whole / bare for (whole, _), bare in rounds]
    yield Note(f"rounds of {PAGES:,} pages of {PAGE_BYTES:,} bytes of {DOMAINS} domains, {AT_ONCE} at a time")
    yield Note(f"ratios {min(ratios):.3f} to {max(ratios):.3f}")
    yield Figure("pages a second by a fetcher, median", median([rate for (rate, _), _ in rounds]), "/s")
    yield Figure("pages a second by bare aiohttp, median", median([bare for _, bare in rounds]), "/s")
    yield Figure("CPU time of a page in the fetcher, median", median([cpu * 1000 for (_, cpu), _ in rounds]), "ms")
    yield Figure("pages a second, fetcher ÷ bare aiohttp, median of pairs", median(ratios))


def _pair(fetcher: "_Fetcher", hosts: Sequence[str], place: int) -> tuple[tuple[float, float], float]:
    if place % 2:
        whole = fetcher.round()
        return whole, run(_bare(hosts))
    bare = run(_bare(hosts))
    return fetcher.round(), bare


class _Fetcher:
    """The stack's one, which stands still until there is enough to do."""

    def __init__(self, stack: Stack, feeder: Feeder, hosts: Sequence[str]) -> None:
        self._stack = stack
        self._feeder = feeder
        self._hosts = hosts
        self._numbers = itertools.count()

    def round(self) -> tuple[float, float]:
        """Pages a second from the first claim until the last content is stored, and its CPU time for one."""
        pid = self._stack.pid("fetch")
        self._stack.freeze("fetch")
        if self._feeder.feed([f"http://{self._hosts[n % DOMAINS]}/{next(self._numbers)}" for n in range(PAGES)]):
            raise RuntimeError("there was no room for some pages")
        used, began = cpu_seconds([pid]), time.perf_counter()
        self._stack.signal("fetch", signal.SIGCONT)
        eventually(self._is_done, 60, "all is fetched")
        took = time.perf_counter() - began
        return PAGES / took, (cpu_seconds([pid]) - used) / PAGES

    def _is_done(self) -> bool:
        return not self._stack.state.exists("retry:claims", "retry:leases", "fetch:leases")


async def _bare(hosts: Sequence[str]) -> float:
    """Pages a second by aiohttp in this process."""
    left = iter(range(PAGES))
    async with aiohttp.ClientSession() as session:

        async def work() -> int:
            total = 0
            for number in left:
                async with session.get(f"http://{hosts[number % DOMAINS]}/{number}") as response:
                    total += len(await response.read())
            return total

        began = time.perf_counter()
        if sum(await asyncio.gather(*(work() for _ in range(AT_ONCE)))) != PAGES * PAGE_BYTES:
            raise RuntimeError("a page did not come")
        return PAGES / (time.perf_counter() - began)
