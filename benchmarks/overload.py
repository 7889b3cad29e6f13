"""Ten times what the site can do: whether it goes on doing as much as it can."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from uuid import uuid4

from benchmarks.clients import connect, follow
from benchmarks.figures import Figure, Note, median
from benchmarks.running import run
from benchmarks.steady import ask_steadily
from benchmarks.tiles import fetched, painted_tile
from tests.flows.stack import Stack

TIMES, SHARE = 10, 0.8
SECONDS, ROUNDS = 12, 3
AT_MOST = 24
"""Clients that find out what the site can do, each asking as soon as it is answered."""
CONNECTIONS = 3000
COLD_SECONDS = 0.2
"""CPU time that a cold content takes a painter."""
BACKLOG = "50"
"""Works that may wait: what is begun is served within some seconds."""

Paths = Callable[[], str]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was served within the time, a second, and how all else was answered."""

    served: float
    statuses: Counter[int]


def measure() -> Iterator[Figure | Note]:
    """Goodput at ten times the load that the site can carry ÷ at that load, for what painters do and what main does."""
    with Stack(BACKLOG_LIMIT=BACKLOG) as stack:
        cached, kept, numbers = painted_tile(stack), f"/slow/{uuid4().hex}", count()
        fetched(stack, kept)
        yield from _judged(stack, "cold contents, painted", _cold, cached)
        yield from _judged(stack, "contents that only main has", lambda: f"{kept}?n={next(numbers)}", cached)


def _cold() -> str:
    return f"/slow/{uuid4().hex}?behaviour=burn&seconds={COLD_SECONDS}&kind=cold"


def _judged(stack: Stack, what: str, paths: Paths, cached: str) -> Iterator[Figure | Note]:
    peak = max(run(_peak(stack, paths)) for _ in range(ROUNDS))
    if not peak:
        raise RuntimeError("nothing is served at all")
    yield Note(f"{what}: {peak:,.0f} a second at the most")
    rounds = [
        (run(_load(stack, paths, cached, peak, 1)), run(_load(stack, paths, cached, peak, TIMES)))
        for _ in range(ROUNDS)
    ]
    for pair in rounds:
        yield Note(", ".join(f"{one.served:,.0f} a second of {dict(sorted(one.statuses.items()))}" for one in pair))
    ratio = median([many.served / one.served for one, many in rounds])
    yield Figure(f"{what}: served at {TIMES} × the load ÷ at the load that can be carried", ratio, at_least=SHARE)


async def _peak(stack: Stack, paths: Paths) -> float:
    """What is served a second while there is always something to do, and no more than that."""
    until, served = time.monotonic() + SECONDS, 0

    async def ask_on() -> None:
        nonlocal served
        client = await connect(stack.host)
        while time.monotonic() < until:
            served += (await follow(client, paths())).status == 200
        client.close()

    await asyncio.gather(*(ask_on() for _ in range(AT_MOST)))
    return served / SECONDS


async def _load(stack: Stack, paths: Paths, cached: str, peak: float, times: int) -> Outcome:
    """So many times the peak is asked for; cached tiles fill up what is not, so that asking costs the same."""
    rate = TIMES * peak
    asked = [paths() if number % TIMES < times else cached for number in range(int(rate * SECONDS))]
    began = time.time()
    timed = await ask_steadily(stack.host, asked, rate=rate, connections=min(CONNECTIONS, len(asked)))
    wanted = [one for path, one in zip(_in_order(asked), timed, strict=True) if path != cached]
    await asyncio.sleep(2)  # what was given up is done with
    served = [one for one in wanted if one.visit.status == 200 and one.visit.answers[-1].at < began + SECONDS]
    return Outcome(len(served) / SECONDS, Counter(one.visit.status for one in wanted))


def _in_order(asked: list[str]) -> list[str]:
    """As ask_steadily returns them: share by share."""
    connections = min(CONNECTIONS, len(asked))
    return [path for place in range(connections) for path in asked[place::connections]]
