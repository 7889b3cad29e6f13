"""The wait for a cold tile beside pre-warming: p99 while it runs flat out ÷ without."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

from tests.support import geojson
from tests.support.stack import Stack, eventually

from ..figures import Figure, Note, percentile
from ..load.clients import connect, follow
from ..load.event_loop import run

PHASES, ROUNDS = 2, 100
SEGMENTS = 100_000
PREPARATION_SECONDS = 0.1
BEGUN = 10
RATIO = 1.3


def measure() -> Iterator[Figure | Note]:
    """Time to the content of cold addresses, one after the other; by turns beside pre-warming, and without."""
    quiet, busy = list[float](), list[float]()
    with Stack() as stack:
        data = stack.directory / "lines.geojson"
        data.write_bytes(geojson.many_lines(SEGMENTS))
        stack.change_layers("load_layer", "bench", "--lines", str(data), "--max-zoom", "16")
        for _ in range(PHASES):
            quiet += [_cold(stack) for _ in range(ROUNDS)]
            with _pre_warming(stack):
                busy += [_cold(stack) for _ in range(ROUNDS)]
        tiles = _kept(stack)
    yield Note(f"{PHASES} times {ROUNDS} cold contents of {PREPARATION_SECONDS:g} s; {tiles:,} tiles meanwhile")
    for name, share in (("median", 0.5), ("p99", 0.99)):
        without, beside = percentile(quiet, share), percentile(busy, share)
        yield Figure(f"cold content, {name}, without pre-warming", without * 1000, "ms")
        yield Figure("the same while it runs flat out", beside * 1000, "ms")
        yield Figure("with ÷ without", beside / without, at_most=RATIO if name == "p99" else None)


@contextmanager
def _pre_warming(stack: Stack) -> Iterator[None]:
    """Raises RuntimeError when it comes to its end before."""
    before = _kept(stack)
    with stack.start_command("prewarm", "--layer", "bench", "--zoom", "8-16", "--concurrency", "16") as warming:
        eventually(lambda: _kept(stack) > before + BEGUN, 60, "it has begun")
        yield
        if warming.poll() is not None:
            raise RuntimeError("pre-warming had ended before")
        warming.send_signal(signal.SIGTERM)
        warming.communicate()


def _kept(stack: Stack) -> int:
    return sum(1 for _ in stack.cache.scan_iter("retry:content:tile:bench:*", count=10_000))


def _cold(stack: Stack) -> float:
    address = f"/slow/{uuid4().hex}?kind=cold&behaviour=burn&seconds={PREPARATION_SECONDS}"
    return run(_followed(stack.host, address))


async def _followed(host: str, path: str) -> float:
    client = await connect(host)
    began = time.monotonic()
    visit = await follow(client, path)
    took = time.monotonic() - began
    client.close()
    if visit.status != 200:
        raise RuntimeError(f"no content: {visit}")
    return took
