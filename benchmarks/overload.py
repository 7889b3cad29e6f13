"""Ten times what the site can do: whether it goes on doing as much as it can."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from uuid import uuid4

from benchmarks.clients import connect, follow
from benchmarks.figures import Figure, Note, median
from benchmarks.flood import flood
from benchmarks.running import run
from benchmarks.subscribing import composed_page
from tests.flows.stack import Stack

TIMES, SENT_TIMES, SHARE = 10, 9, 0.8
"""Of the peak: what is asked for, what has to be sent of it at the least, and what has to be served."""
SECONDS, ROUNDS = 12, 3
AT_MOST = 24
"""Clients that find out what the site can do, each asking as soon as it is answered."""
COLD_SECONDS = 0.4
"""CPU time that a cold content takes a painter: as much as a block of 8 × 8 tiles."""
BACKLOG = "25"
"""Works that may wait: what is begun is served within some seconds."""
REFUSED = 503

Paths = Callable[[], str]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of SECONDS: requests sent and contents served, a second each; how all was answered; CPU time of the clients."""

    sent: float
    served: float
    statuses: Counter[int]
    clients_seconds: float

    def __str__(self) -> str:
        answers = ", ".join(f"{number:,} × {status or 'none'}" for status, number in sorted(self.statuses.items()))
        cores = self.clients_seconds / SECONDS
        return f"{self.sent:,.1f} a second sent, {self.served:,.1f} served; {answers}; clients took {cores:.2f} cores"


def measure() -> Iterator[Figure | Note]:
    """Goodput at ten times the peak ÷ the peak, for what painters do and for what main does."""
    with Stack(BACKLOG_LIMIT=BACKLOG) as stack:
        yield from _measured(stack, "cold contents", _cold)
        page = composed_page(stack)
        yield from _measured(stack, "pages composed by main", lambda: page)


def _cold() -> str:
    return f"/slow/{uuid4().hex}?behaviour=burn&seconds={COLD_SECONDS}&kind=cold"


def _measured(stack: Stack, what: str, paths: Paths) -> Iterator[Figure | Note]:
    easy = [run(_peak(stack, paths)) for _ in range(ROUNDS)]
    peak = max(easy)
    if not peak:
        raise RuntimeError("nothing is served at all")
    yield Note(f"{what}: {', '.join(f'{served:,.1f}' for served in easy)} a second to {AT_MOST} clients")
    rounds = [run(_overloaded(stack, paths, TIMES * peak)) for _ in range(ROUNDS)]
    yield from (Note(str(one)) for one in rounds)
    yield from judged(what, peak, rounds)


def judged(what: str, peak: float, rounds: Sequence[Outcome]) -> Iterator[Figure]:
    """Whether ten times the peak was asked for at all, what was served of it, and how the rest was told."""
    sent, served = min(one.sent for one in rounds), median([one.served for one in rounds])
    yield Figure(f"{what}: sent within the {SECONDS} s ÷ peak, least", sent / peak, at_least=SENT_TIMES)
    yield Figure(f"{what}: served within them ÷ peak", served / peak, at_least=SHARE)
    neither = sum(number for one in rounds for status, number in one.statuses.items() if status not in {200, REFUSED})
    yield Figure(f"{what}: answered with neither content nor {REFUSED}", neither, at_most=0)


async def _peak(stack: Stack, paths: Paths) -> float:
    """What is served a second while there is always something to do, and no more than that."""
    until, served = time.time() + SECONDS, 0

    async def ask_on() -> None:
        nonlocal served
        client = await connect(stack.host)
        while time.time() < until:
            visit = await follow(client, paths())
            served += visit.status == 200 and visit.answers[-1].at < until
        client.close()

    await asyncio.gather(*(ask_on() for _ in range(AT_MOST)))
    return served / SECONDS


async def _overloaded(stack: Stack, paths: Paths, rate: float) -> Outcome:
    """Returns when nothing of it is left to do."""
    until, before = time.time() + SECONDS, time.process_time()
    visits = await flood(stack.host, paths, rate, SECONDS)
    spent = time.process_time() - before
    sent = sum(one.at < until for one in visits)
    served = sum(one.visit.status == 200 and one.visit.answers[-1].at < until for one in visits)
    statuses = Counter(one.visit.status for one in visits)
    return Outcome(sent / SECONDS, served / SECONDS, statuses, spent)
