"""Ten times the load that the site can carry: the goodput must stay."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from uuid import uuid4

from tests.support.stack import Stack

from ..feeds.subscriptions import composed_page
from ..figures import Figure, Note, median
from ..load.clients import connect, follow
from ..load.event_loop import run
from ..load.flood import flood

TIMES, SENT_TIMES, SHARE = 10, 9, 0.8
"""The load to send and the least that must be sent, in multiples of the peak; the share of the peak to serve."""
SECONDS, ROUNDS = 12, 5
AT_MOST = 24
"""Clients that measure the peak: each sends a request as soon as it has the answer to the last."""
COLD_SECONDS = 0.4
"""CPU time of a painter for a cold content: as much as for a metatile of 8 × 8 tiles."""
BACKLOG = "25"
"""The limit of the backlog: begun work is served within some seconds."""
REFUSED = 503

Paths = Callable[[], str]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Figures of SECONDS: requests sent and contents served, a second each; the answers; CPU time of the clients."""

    sent: float
    served: float
    statuses: Counter[int]
    clients_seconds: float

    def __str__(self) -> str:
        answers = ", ".join(f"{number:,} × {status or 'none'}" for status, number in sorted(self.statuses.items()))
        cores = self.clients_seconds / SECONDS
        return f"{self.sent:,.1f} a second sent, {self.served:,.1f} served; {answers}; clients took {cores:.2f} cores"


@dataclass(frozen=True, slots=True)
class Round:
    """The flood, and the contents served a second to a few clients just before and just after it."""

    before: float
    flood: Outcome
    after: float

    @property
    def sent_share(self) -> float:
        return self.flood.sent / self.before

    @property
    def served_share(self) -> float:
        return self.flood.served / max(self.before, self.after)

    def __str__(self) -> str:
        return f"{self.before:,.1f} a second to {AT_MOST} clients before, {self.after:,.1f} after; {self.flood}"


def measure() -> Iterator[Figure | Note]:
    """Goodput at ten times the peak ÷ the peak, for painters' work and for main's."""
    with Stack(BACKLOG_LIMIT=BACKLOG) as stack:
        yield from _measured(stack, "cold contents", _cold)
        page = composed_page(stack)
        yield from _measured(stack, "pages composed by main", lambda: page)


def _cold() -> str:
    return f"/slow/{uuid4().hex}?behaviour=burn&seconds={COLD_SECONDS}&kind=cold"


def _measured(stack: Stack, what: str, paths: Paths) -> Iterator[Figure | Note]:
    before, rounds = run(_peak(stack, paths)), list[Round]()
    for _ in range(ROUNDS):
        flooded = run(_overloaded(stack, paths, TIMES * before))
        rounds.append(Round(before, flooded, after=run(_peak(stack, paths))))
        before = rounds[-1].after
        yield Note(f"{what}: {rounds[-1]}")
    yield from judged(what, rounds)


def judged(what: str, rounds: Sequence[Round]) -> Iterator[Figure]:
    """The load actually sent, the contents served, and the other answers."""
    sent, served = min(one.sent_share for one in rounds), median([one.served_share for one in rounds])
    yield Figure(f"{what}: sent within the {SECONDS} s ÷ peak, least", sent, at_least=SENT_TIMES)
    yield Figure(f"{what}: served within them ÷ peak", served, at_least=SHARE)
    answered = sum((one.flood.statuses for one in rounds), Counter[int]())
    neither = answered.total() - answered[200] - answered[REFUSED]
    yield Figure(f"{what}: peak after all of it ÷ before", rounds[-1].after / rounds[0].before)
    yield Figure(f"{what}: answered with neither content nor {REFUSED}", neither, at_most=0)


async def _peak(stack: Stack, paths: Paths) -> float:
    """The contents served a second while there is always work, and no more than that."""
    until, served = time.time() + SECONDS, 0

    async def ask_on() -> None:
        nonlocal served
        client = await connect(stack.host)
        while time.time() < until:
            visit = await follow(client, paths())
            served += visit.status == 200 and visit.answers[-1].at < until
        client.close()

    await asyncio.gather(*(ask_on() for _ in range(AT_MOST)))
    if not served:
        raise RuntimeError("nothing is served at all")
    return served / SECONDS


async def _overloaded(stack: Stack, paths: Paths, rate: float) -> Outcome:
    """Returns when none of its work is left."""
    until, before = time.time() + SECONDS, time.process_time()
    visits = await flood(stack.host, paths, rate, SECONDS)
    spent = time.process_time() - before
    sent = sum(one.at < until for one in visits)
    served = sum(one.visit.status == 200 and one.visit.answers[-1].at < until for one in visits)
    statuses = Counter(one.visit.status for one in visits)
    return Outcome(sent / SECONDS, served / SECONDS, statuses, spent)
