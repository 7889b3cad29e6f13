"""Feeds as they are spread over hosts: a few hosts with many, many with one; most are fast, a few time out."""

import random

from feeds.schedule.order import PlannedFetch

HOST_SIZES = (160, 80, 40, 20, 20, *[10] * 10)
FEEDS = 1597
TIMEOUT_SECONDS = 30.0


def population(seed: int = 1) -> list[PlannedFetch]:
    """1,597 feeds on 1,192 hosts in no order; durations are log-normal, median 0.5 s, and 1 % at the timeout."""
    luck = random.Random(seed)
    sizes = [*HOST_SIZES, *[1] * (FEEDS - sum(HOST_SIZES))]
    fetches = [
        PlannedFetch(f"{host}/{number}", f"host{host}.example", _seconds(luck))
        for host, size in enumerate(sizes)
        for number in range(size)
    ]
    luck.shuffle(fetches)
    return fetches


def _seconds(luck: random.Random) -> float:
    return TIMEOUT_SECONDS if luck.random() < 0.01 else min(TIMEOUT_SECONDS, luck.lognormvariate(-0.7, 1.0))
