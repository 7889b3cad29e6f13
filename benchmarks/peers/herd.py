"""Thousands of simultaneous requests for one cold content: its preparations, and the time of the last answer."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from ..figures import Figure, Note, median
from ..load.event_loop import run
from ..machine import allowed_clients
from ..serving.single_flight import at_once
from .everybody import OURS, Everybody
from .sites import Site

CLIENTS = 2000
SECONDS = 1.0
ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Round:
    """The result of one site. Seconds run from the moment at which all are connected and about to ask."""

    seconds: float
    preparations: int
    errors: int


def measure() -> Iterator[Figure | Note]:
    """Round by round of all sites, which run all the time."""
    clients, notes = allowed_clients(CLIENTS)
    yield from notes
    everybody = Everybody()
    with ExitStack() as parts:
        sites = dict(everybody.all_started(parts))
        yield from everybody.notes()
        rounds: dict[str, list[Round]] = {name: [] for name in sites}
        for _ in range(ROUNDS):
            for name, site in sites.items():
                rounds[name].append(_round(site, clients))
    ours = median([one.seconds for one in rounds[OURS]])
    yield Note(f"{clients:,} clients, content of {SECONDS:g} s, {ROUNDS} rounds")
    for name, found in rounds.items():
        last = median([one.seconds for one in found])
        yield Figure(f"{name}: preparations in a round, at most", max(one.preparations for one in found))
        yield Figure("  errors, in all rounds", sum(one.errors for one in found))
        yield Figure("  the last answer, median", last, "s")
        yield Figure("  ÷ Tarry's", last / ours)


def _round(site: Site, clients: int) -> Round:
    content = site.cold(SECONDS)
    began, visits = run(at_once(site.host, content.path, clients))
    came = [visit.answers[-1].at for visit in visits if visit.status == 200]
    return Round(max(came, default=began) - began, site.preparations(content), clients - len(came))
