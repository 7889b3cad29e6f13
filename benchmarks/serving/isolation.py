"""The latency of cached content beside waiting clients."""

from collections.abc import Iterator
from uuid import uuid4

from tests.support.stack import Stack

from ..figures import Figure, Note, median, percentile
from ..load.crowd import PATIENCE, Crowd
from ..load.event_loop import run
from ..load.steady import ask_steadily
from ..machine import allowed_clients
from ..tiles.tile_requests import painted_tile

CLIENTS, CONTENTS = 4000, 40
ROUNDS = 7
REQUESTS, RATE, CONNECTIONS = 2000, 500, 25
RATIO = 2.0
HELD, BURNING = "gated=1", "gated=1&behaviour=burn&seconds=100"
"""Preparations that wait, and such that take all the processor time there is."""


def measure() -> Iterator[Figure | Note]:
    """p99 of a cached tile at a constant rate, while clients wait for cold contents ÷ without them."""
    clients, notes = allowed_clients(CLIENTS)
    yield from notes
    with Stack(**PATIENCE) as stack:
        tile = painted_tile(stack)
        run(_p99(stack, tile))
        rounds = [(run(_beside_crowd(stack, tile, clients)), run(_p99(stack, tile))) for _ in range(ROUNDS)]
        busy = run(_beside_painters(stack, tile, clients))
    for one in rounds:
        yield Note("p99 {:.2f} ms beside the crowd, {:.2f} ms idle".format(*(1000 * seconds for seconds in one)))
    beside, idle = (median(list(side)) for side in zip(*rounds, strict=True))
    name = f"p99 of a cached tile with {clients:,} clients waiting ÷ p99 idle, medians"
    yield Figure(name, beside / idle, at_most=RATIO)
    yield Figure("the same with all painters computing ÷ p99 idle", busy / idle)


async def _p99(stack: Stack, tile: str) -> float:
    timed = await ask_steadily(stack.host, [tile] * REQUESTS, rate=RATE, connections=CONNECTIONS)
    if any(one.visit.status != 200 for one in timed):
        raise RuntimeError("a cached tile was not served")
    return percentile([one.seconds for one in timed], 0.99)


async def _beside_crowd(stack: Stack, tile: str, size: int) -> float:
    names = [uuid4().hex for _ in range(CONTENTS)]
    crowd = Crowd(stack, [f"/slow/{name}?{HELD}&kind=held" for name in names], size)
    try:
        await crowd.gather()
        return await _p99(stack, tile)
    finally:
        for name in names:
            stack.open_gate(name)
        await crowd.visits()
        crowd.leave()


async def _beside_painters(stack: Stack, tile: str, size: int) -> float:
    """The p99 while every painter computes all the time. They go on: nothing can be measured after it."""
    crowd = Crowd(stack, [f"/slow/{uuid4().hex}?{BURNING}&kind=burning" for _ in range(CONTENTS)], size)
    try:
        await crowd.gather()
        return median([await _p99(stack, tile) for _ in range(ROUNDS)])
    finally:
        crowd.leave()
