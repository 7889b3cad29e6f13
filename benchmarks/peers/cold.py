"""Cold content: its time above the preparation, one client at a time."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

from ..figures import Figure, Note, median, percentile
from ..load.clients import connect, follow
from ..load.event_loop import run
from . import tarry
from .everybody import OURS, Everybody
from .sites import Site

INTERNAL = "Tarry without redirects"
"""The site with RETRY_DELIVERY=internal."""
SECONDS = 0.3
ROUNDS = 21


def measure() -> Iterator[Figure | Note]:
    """From the request to the last byte, redirects followed, less the seconds of the preparation."""
    yield Note(f"content of {SECONDS * 1000:g} ms, {ROUNDS} rounds")
    everybody = Everybody()
    found = _rounds(everybody)
    yield from everybody.notes()
    # By itself: an idle site beside it would take some of its time.
    alone = Everybody({INTERNAL: partial(tarry.start, RETRY_DELIVERY="internal")})
    yield from _compared(found | _rounds(alone))


def _rounds(everybody: Everybody) -> dict[str, list[float]]:
    """Seconds of each site, round by round."""
    with ExitStack() as parts:
        sites = dict(everybody.all_started(parts))
        for site in sites.values():
            run(_above(site))
        found: dict[str, list[float]] = {name: [] for name in sites}
        for _ in range(ROUNDS):
            for name, site in sites.items():
                found[name].append(run(_above(site)))
    return found


def _compared(found: dict[str, list[float]]) -> Iterator[Figure]:
    ours = found[OURS]
    for name, seconds in found.items():
        pairs = list(zip(ours, seconds, strict=True))
        yield Figure(f"{name}: above its preparation, median", median(seconds) * 1000, "ms")
        yield Figure("  p95", percentile(seconds, 0.95) * 1000, "ms")
        yield Figure("  Tarry's ÷ these, median of rounds", median([mine / theirs for mine, theirs in pairs]))
        with_it = [(SECONDS + mine) / (SECONDS + theirs) for mine, theirs in pairs]
        yield Figure("  the same with the preparation", median(with_it))


async def _above(site: Site) -> float:
    """Seconds. By a connection that is there before. Raises RuntimeError when it is refused."""
    client = await connect(site.host)
    try:
        began = time.time()
        visit = await follow(client, site.cold(SECONDS).path)
        if visit.status != 200:
            raise RuntimeError(f"no content from {site.host}: {visit}")
        return visit.answers[-1].at - began - SECONDS
    finally:
        client.close()
