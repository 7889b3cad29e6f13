"""The processor time of main with more and more misses among its requests."""

from collections.abc import Iterator
from uuid import uuid4

from tests.support.stack import Stack

from ..figures import Figure, Note
from ..load.event_loop import run
from ..load.steady import ask_steadily
from ..machine import cpu_seconds
from ..tiles.tile_requests import fetched

REQUESTS, RATE, CONNECTIONS = 10_000, 400, 100
HOT_CONTENTS = 20
MISSES = 5
"""In a thousand requests. Each is content of its own that was never asked for before."""


def measure() -> Iterator[Figure | Note]:
    """User and system time of main per 1,000 requests of clients, at 1 × and at 10 × the misses, same rate."""
    with Stack() as stack:
        hot = [f"/slow/{uuid4().hex}?kind=hot" for _ in range(HOT_CONTENTS)]
        for path in hot:
            fetched(stack, path)
        _spent(stack, hot, MISSES)
        few, many = _spent(stack, hot, MISSES), _spent(stack, hot, 10 * MISSES)
    yield Figure(f"main's CPU per 1,000 requests, {MISSES} of them misses", few, "ms")
    yield Figure(f"main's CPU per 1,000 requests, {10 * MISSES} of them misses", many, "ms")
    yield Figure("ratio", many / few)
    yield Figure("main's CPU per miss, from the difference", (many - few) / (9 * MISSES), "ms")


def _spent(stack: Stack, hot: list[str], misses: int) -> float:
    """Milliseconds of main's CPU per 1,000 requests. Raises RuntimeError when one fails."""
    every = 1000 // misses
    paths = [f"/slow/{uuid4().hex}?kind=cold" if i % every == 0 else hot[i % len(hot)] for i in range(REQUESTS)]
    main = stack.pids("main")
    before = cpu_seconds(main)
    timed = run(ask_steadily(stack.host, paths, rate=RATE, connections=CONNECTIONS))
    failed = sum(one.visit.status != 200 for one in timed)
    if failed:
        raise RuntimeError(f"{failed} of {REQUESTS:,} requests failed")
    return (cpu_seconds(main) - before) * 1000 / (REQUESTS / 1000)
