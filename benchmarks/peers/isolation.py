"""Cached content beside clients that wait for cold content, which takes 300 ms to 5 s to prepare."""

from collections.abc import Iterator
from dataclasses import dataclass

from ..figures import Figure, Note, median
from ..load.event_loop import run
from ..machine import allowed_clients
from .everybody import OURS, Everybody
from .installation import MissingError
from .latency import PATIENCE_SECONDS, SECONDS, Latency, latency
from .sites import Site
from .waiters import CONTENTS, WaitingClients

CROWDS = (300, 4000)
ROUNDS = 3
RATE = 200


@dataclass(frozen=True, slots=True)
class Round:
    """Latencies of one site without and beside so many waiting clients, and the results of these."""

    idle: Latency
    beside: Latency
    served: int
    refused: int


def measure() -> Iterator[Figure | Note]:
    """Each site is started anew for each round: its backlog would take minutes."""
    everybody = Everybody()
    yield Note(f"{RATE} cached requests a second for {SECONDS} s, {ROUNDS} rounds; {CONTENTS} cold contents at a time")
    for wanted in CROWDS:
        clients, notes = allowed_clients(wanted)
        yield from notes
        rounds: dict[str, list[Round]] = {name: [] for name in everybody.names()}
        for _ in range(ROUNDS):
            for name in everybody.names():
                try:
                    with everybody.started(name) as site:
                        rounds[name].append(run(_round(site, clients)))
                except MissingError as reason:
                    everybody.missing[name] = str(reason)
        yield from _compared(clients, {name: found for name, found in rounds.items() if found})
    yield from everybody.notes()


async def _round(site: Site, clients: int) -> Round:
    await latency(site, RATE)  # files loaded once are not counted
    idle = await latency(site, RATE)
    waiters = WaitingClients(site, clients)
    try:
        await waiters.gather()
        beside = await latency(site, RATE)
    finally:
        await waiters.leave()
    return Round(idle, beside, waiters.served, waiters.refused)


def _compared(clients: int, rounds: dict[str, list[Round]]) -> Iterator[Figure | Note]:
    ours = median([one.beside.p99 for one in rounds[OURS]])
    yield Note(
        f"{clients:,} clients wait; what was not there within {PATIENCE_SECONDS:g} s counts as {PATIENCE_SECONDS:g} s"
    )
    for name, found in rounds.items():
        idle, beside = median([one.idle.p99 for one in found]), median([one.beside.p99 for one in found])
        yield Figure(f"{name}: p99 of cached content", beside * 1000, "ms")
        yield Figure("  ÷ p99 idle", beside / idle)
        yield Figure("  ÷ Tarry's", beside / ours)
        yield Figure("  cached content that did not come", median([one.beside.lost for one in found]) * 100, "%")
        yield Figure("  cold contents served meanwhile", median([one.served for one in found]))
        yield Figure("  clients refused, or sent away with an error", median([one.refused for one in found]))
