"""More and more clients that wait: the waiting instance's memory, and how long waking them takes."""

from collections.abc import Iterator, Sequence
from functools import partial

from benchmarks import memory, wake
from benchmarks.crowd import PATIENCE
from benchmarks.figures import Figure, Note, median
from benchmarks.growth.charting import Chart, Curve
from benchmarks.growth.drawn import drawn
from benchmarks.limits import allowed_clients
from benchmarks.processes import MEGABYTE
from benchmarks.running import run
from tests.flows.stack import Stack

SIZES = (10, 100, 1_000, 10_000)
ROUNDS = 3


def measure() -> Iterator[Figure | Note]:
    """Each crowd waits for one content."""
    most, notes = allowed_clients(SIZES[-1])
    yield from notes
    yield from drawn("waiting", partial(_charts, [min(size, most) for size in SIZES]))


def _charts(sizes: Sequence[int]) -> list[Chart]:
    taken, last = [], []
    with Stack(**PATIENCE) as stack:
        run(memory.gathered(stack, memory.FIRST))
        for size in sizes:
            taken.append((size, run(memory.gathered(stack, size)).own / MEGABYTE))
            rounds = [run(wake.woken(stack, size))[0] for _ in range(ROUNDS)]
            last.append((size, max(0.001, median(rounds))))
    grows = "clients that wait"
    return [
        Chart("Memory of the waiting instance", grows, "MB", [Curve("its own, all clients in it", taken)]),
        Chart("Waking", grows, "s", [Curve("readiness to the last one redirected", last)]),
    ]
