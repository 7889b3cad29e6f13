"""Cached tiles: the highest rate, and the latency at a steady rate."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from .. import pairs
from ..figures import Figure, Note, median
from ..load.event_loop import run
from .everybody import OURS, WITH_STATIC, Everybody
from .latency import latency
from .sites import Site

ROUNDS, ROUND_SECONDS = 7, 2
RATE = 200
"""The rate for the p99, which the slowest site can serve as well."""


@dataclass(frozen=True, slots=True)
class Round:
    """Requests a second, and seconds."""

    rate: float
    p99: float


def measure() -> Iterator[Figure | Note]:
    """All sites run all the time, and are asked one after the other; every other round the other way round."""
    pairs.tool()
    everybody = Everybody(WITH_STATIC)
    with ExitStack() as parts:
        sites = dict(everybody.all_started(parts))
        yield from everybody.notes()
        sizes = {name: len(site.get(site.cached)) for name, site in sites.items()}
        yield Note("bytes: " + ", ".join(f"{name} {size:,}" for name, size in sizes.items()))
        rounds: dict[str, list[Round]] = {name: [] for name in sites}
        for turn in range(ROUNDS):
            for name in list(sites)[:: 1 if turn % 2 else -1]:
                rounds[name].append(_round(sites[name]))
    yield from _compared(rounds)


def _round(site: Site) -> Round:
    rate = pairs.rate(f"http://{site.host}{site.cached}", ROUND_SECONDS)
    return Round(rate, run(latency(site, RATE)).p99)


def _compared(rounds: dict[str, list[Round]]) -> Iterator[Figure]:
    ours = rounds[OURS]
    for name, found in rounds.items():
        ratios = [mine.rate / theirs.rate for mine, theirs in zip(ours, found, strict=True)]
        yield Figure(f"{name}: cached content, median", median([one.rate for one in found]), "req/s")
        yield Figure("  Tarry's ÷ these, median of rounds", median(ratios))
        yield Figure(f"  p99 at {RATE} a second, median", median([one.p99 for one in found]) * 1000, "ms")
