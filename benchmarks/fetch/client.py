"""The cost of the client: pages a second from a fast origin, against aiohttp that only reads them."""

import asyncio
import itertools
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from resources.fetch.http.allowed_ips import build_guard
from resources.fetch.http.client import FetchClient
from resources.fetch.http.deadlines import FetchPolicy
from resources.fetch.http.messages import Fetched, FetchRequest

from ..figures import Figure, Note, median
from ..load.event_loop import run
from . import fast_origin

PAGES, PAGE_BYTES = 500, 10_000
AT_ONCE = 50
ROUNDS = 41
SHARE = 0.6


@dataclass(frozen=True, slots=True)
class Round:
    """Pages a second, and the CPU time of this process."""

    rate: float
    cpu_seconds: float


Ask = Callable[[], Awaitable[bool]]


def measure() -> Iterator[Figure | Note]:
    """Both in this process, from an origin in another, each time in the other order."""
    with fast_origin.origins(PAGE_BYTES) as [host]:
        pairs = run(_rounds(host))
    ratios = [ours.rate / bare.rate for ours, bare in pairs]
    dearer = [ours.cpu_seconds / bare.cpu_seconds for ours, bare in pairs]
    yield Note(f"rounds of {PAGES:,} pages of {PAGE_BYTES:,} bytes, {AT_ONCE} at a time")
    yield Note(f"ratios {min(ratios):.2f} to {max(ratios):.2f}")
    yield Figure("pages a second by the client, median", median([ours.rate for ours, _ in pairs]), "/s")
    yield Figure("pages a second by bare aiohttp, median", median([bare.rate for _, bare in pairs]), "/s")
    yield Figure("pages a second, client ÷ bare aiohttp, median of pairs", median(ratios), at_least=SHARE)
    yield Figure("CPU time of a page, client ÷ bare aiohttp, median of pairs", median(dearer))


async def _rounds(host: str) -> list[tuple[Round, Round]]:
    pairs = []
    with tempfile.TemporaryDirectory(prefix="tarry-bench-") as directory:
        async with _both(host, Path(directory)) as (ours, bare):
            for ask in (ours, bare):
                await _round(ask)
            for place in range(ROUNDS):
                if place % 2:
                    second, first = await _round(bare), await _round(ours)
                else:
                    first, second = await _round(ours), await _round(bare)
                pairs.append((first, second))
    return pairs


async def _round(ask: Ask) -> Round:
    """Raises RuntimeError when a page did not come."""
    left = iter(range(PAGES))

    async def work() -> bool:
        return all([await ask() for _ in left])

    began, used = time.perf_counter(), time.process_time()
    if not all(await asyncio.gather(*(work() for _ in range(AT_ONCE)))):
        raise RuntimeError("a page did not come")
    return Round(PAGES / (time.perf_counter() - began), time.process_time() - used)


@asynccontextmanager
async def _both(host: str, directory: Path) -> AsyncIterator[tuple[Ask, Ask]]:
    url = f"http://{host}/pages/"
    numbers = itertools.count()
    policy = FetchPolicy(build_guard([80], [host]), "Tarry (benchmark)", directory)
    async with FetchClient(policy) as client, aiohttp.ClientSession() as session:

        async def ours() -> bool:
            outcome = await client.fetch(FetchRequest(f"{url}{next(numbers)}"))
            return isinstance(outcome, Fetched) and outcome.body.size == PAGE_BYTES

        async def bare() -> bool:
            async with session.get(f"{url}{next(numbers)}") as response:
                return len(await response.read()) == PAGE_BYTES

        yield ours, bare
