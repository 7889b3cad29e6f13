"""The latency of cached content at a steady rate; an answer may not come at all."""

from dataclasses import dataclass

from ..figures import percentile
from ..load.steady import ask_steadily
from .sites import Site

SECONDS, CONNECTIONS = 4, 25
PATIENCE_SECONDS = 10.0
"""A later answer, or none, counts as one of this duration."""


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds; `lost` is the share of requests that had no 200 in time."""

    p99: float
    lost: float


async def latency(site: Site, rate: int) -> Latency:
    """The latencies of its cached content, requested so often a second."""
    paths = [site.cached] * (rate * SECONDS)
    asked = {"rate": rate, "connections": CONNECTIONS}
    timed = await ask_steadily(site.host, paths, patience_seconds=PATIENCE_SECONDS, **asked)
    came = [one.seconds for one in timed if one.visit.status == 200]
    lost = len(timed) - len(came)
    return Latency(percentile([*came, *[PATIENCE_SECONDS] * lost], 0.99), lost / len(timed))
