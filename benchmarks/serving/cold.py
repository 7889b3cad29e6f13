"""Cold content against its preparation alone."""

import subprocess
import sys
import time
from collections.abc import Iterator
from uuid import uuid4

from tests.support.stack import ROOT, Stack

from ..figures import Figure, Note, median
from ..load.clients import Client, connect, follow
from ..load.event_loop import run

SECONDS = 0.3
PAIRS = 21
RATIO = 1.05


def measure() -> Iterator[Figure | Note]:
    """Time to the content, two redirects followed, ÷ a call of its preparer in another process, median of pairs."""
    with Stack() as stack:
        pairs = run(_pairs(stack))
    ratios = [cold / direct for cold, direct in pairs]
    yield Note(f"ratios from {min(ratios):.3f} to {max(ratios):.3f}")
    for name, side in (("cold", 0), ("direct", 1)):
        yield Figure(f"{name}, median", median([pair[side] for pair in pairs]) * 1000, "ms")
    name = f"cold content with a {SECONDS * 1000:.0f} ms preparer ÷ the preparer called directly"
    yield Figure(name, median(ratios), at_most=RATIO)


async def _pairs(stack: Stack) -> list[tuple[float, float]]:
    command = [sys.executable, "-m", "benchmarks.fetch.direct"]
    with subprocess.Popen(
        command, cwd=ROOT, env=stack.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as caller:
        client = await connect(stack.host)
        await _cold(client)
        _direct(caller)
        pairs = [(await _cold(client), _direct(caller)) for _ in range(PAIRS)]
        client.close()
        assert caller.stdin is not None
        caller.stdin.close()  # it ends with its input
    return pairs


async def _cold(client: Client) -> float:
    began = time.time()
    visit = await follow(client, f"/slow/{uuid4().hex}?seconds={SECONDS}&size=8000&kind=cold")
    if visit.status != 200 or visit.redirects != 2:
        raise RuntimeError(f"no content after two redirects: {visit}")
    return visit.answers[-1].at - began


def _direct(caller: "subprocess.Popen[str]") -> float:
    assert caller.stdin is not None
    assert caller.stdout is not None
    caller.stdin.write(f"{SECONDS}\n")
    caller.stdin.flush()
    return float(caller.stdout.readline())
