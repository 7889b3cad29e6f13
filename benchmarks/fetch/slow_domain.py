"""A domain that takes requests and never answers: its effect on other domains."""

import math
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path

from tests.hostile import secret_origins
from tests.hostile.secret_origins import SecretOrigins
from tests.support.fetcher_processes import FurtherFetcher
from tests.support.stack import Stack

from ..figures import Figure, Note, median, percentile
from ..mirror.feeder import Feeder

DOMAINS, LATENCY_SECONDS = 12, 0.1
PAIRS = 5
SECONDS, STEP_SECONDS = 10.0, 0.5
HEAD_SECONDS = 5
SETTLE_SECONDS = HEAD_SECONDS + 1.0
SWALLOWED = 100
RATIO = 1.1


def measure() -> Iterator[Figure | Note]:
    """Each time another domain swallows, so that nothing of it is known; it is paused before the time without."""
    known: list[dict[str, float]] = [{"rate": 1000, "burst": 100, "latency": LATENCY_SECONDS}] * DOMAINS
    known += [{"rate": 1000, "burst": 1000, "latency": math.inf}] * PAIRS
    pairs, pages = [], count()
    with ExitStack() as parts:
        directory = Path(parts.enter_context(tempfile.TemporaryDirectory(prefix="tarry-bench-")))
        origins = parts.enter_context(secret_origins.running(directory / "asked", known, 3600))
        stack = parts.enter_context(
            Stack(BACKLOG_LIMIT="100000", FETCH_HEAD_SECONDS=str(HEAD_SECONDS), FETCH_CONNECT_SECONDS="3")
        )
        feeder = parts.enter_context(Feeder(stack))
        for _ in range(2):
            parts.enter_context(FurtherFetcher(stack))
        _p95(origins, feeder, pages)
        for place in range(PAIRS):
            without = _p95(origins, feeder, pages) if place % 2 else None
            swallower = DOMAINS + 1 + place
            feeder.feed([origins.url(swallower, next(pages)) for _ in range(SWALLOWED)])
            beside = _p95(origins, feeder, pages)
            feeder.limit(origins.host(swallower), paused=True)
            time.sleep(SETTLE_SECONDS)
            pairs.append((beside, _p95(origins, feeder, pages) if without is None else without))
        swallowed = sum(one.domain > DOMAINS for one in origins.asked())
    ratios = [beside / without for beside, without in pairs]
    yield Note(f"{DOMAINS} domains that answer after {LATENCY_SECONDS * 1000:.0f} ms; {swallowed} requests swallowed")
    yield Note(f"ratios {min(ratios):.3f} to {max(ratios):.3f}")
    yield Figure("p95 from queued to served, median of rounds without", median([one for _, one in pairs]) * 1000, "ms")
    yield Figure("p95 beside a domain that swallows requests ÷ without, median", median(ratios), at_most=RATIO)


def _p95(origins: SecretOrigins, feeder: Feeder, pages: Iterator[int]) -> float:
    """Seconds from queued to served of pages at an even pace, all domains alike."""
    wanted, began = dict[str, float](), time.time()
    while (now := time.time()) < began + SECONDS:
        for domain in range(1, DOMAINS + 1):
            page = next(pages)
            wanted[f"/{page}"] = time.time()
            if feeder.feed([origins.url(domain, page)]):
                raise RuntimeError("a page was not taken")
        time.sleep(max(0.0, now + STEP_SECONDS - time.time()))
    time.sleep(STEP_SECONDS)
    waits = [one.at - wanted[one.path] + LATENCY_SECONDS for one in origins.asked() if one.path in wanted]
    if len(waits) < len(wanted):
        raise RuntimeError(f"{len(wanted) - len(waits)} pages were not fetched in time")
    return percentile(waits, 0.95)
