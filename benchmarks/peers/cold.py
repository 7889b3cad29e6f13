"""Cold content: its time above the preparation, one client at a time."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

from ..figures import Figure, Note, median, percentile
from ..load.clients import connect, follow
from ..load.event_loop import run
from . import nginx, tarry
from .everybody import OURS, Everybody
from .sites import Site, Starting

INTERNAL, LOCKED = "Tarry without redirects", "nginx with a lock"
"""The site with RETRY_DELIVERY=internal; the peer that a client gets cold content from by one request as well."""
MOST_TIMES_LOCKED = {OURS: 7 / 2.8, INTERNAL: 5 / 2.8}
"""The bounds of the ratios: on a machine where the peer takes 2.8 ms, these are 7 and 5 ms."""
SECONDS = 0.3
ROUNDS = 21


def measure() -> Iterator[Figure | Note]:
    """From the request to the last byte, redirects followed, less the seconds of the preparation."""
    yield Note(f"a picture of {SECONDS * 1000:g} ms, {ROUNDS} rounds")
    everybody = Everybody()
    found = _rounds(everybody)
    yield from everybody.notes()
    yield from _compared(OURS, found)
    # Beside another site of ours, its idle processes would take some of the time.
    pair: dict[str, Starting] = {INTERNAL: partial(tarry.start, RETRY_DELIVERY="internal"), LOCKED: nginx.start}
    yield from _compared(INTERNAL, _rounds(Everybody(pair)))


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


def _compared(name: str, found: dict[str, list[float]]) -> Iterator[Figure]:
    ours = found.pop(name)
    yield Figure(f"{name}: above its preparation, median", median(ours) * 1000, "ms")
    yield Figure("  p95", percentile(ours, 0.95) * 1000, "ms")
    for peer, seconds in found.items():
        pairs = list(zip(ours, seconds, strict=True))
        yield Figure(f"{peer}: above its preparation, median", median(seconds) * 1000, "ms")
        yield Figure("  p95", percentile(seconds, 0.95) * 1000, "ms")
        most = MOST_TIMES_LOCKED[name] if peer == LOCKED else None
        ratio = median([mine / theirs for mine, theirs in pairs])
        yield Figure(f"  {name} ÷ these, median of rounds", ratio, at_most=most)
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
