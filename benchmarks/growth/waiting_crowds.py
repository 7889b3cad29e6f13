"""More and more clients that wait: the waiting instance's memory, and how long waking them takes."""

from collections.abc import Iterator, Sequence
from functools import partial

from tests.support.stack import Stack

from .. import machine
from ..figures import Figure, Note, median
from ..load.crowd import PATIENCE
from ..load.event_loop import run
from ..machine import KILOBYTE, MEGABYTE, allowed_clients
from ..serving import memory, wake
from .curve_chart import Chart, Curve
from .drawn import drawn

SIZES = (10, 100, 1_000, 10_000)
ROUNDS = 3
FEWEST = 100
"""The memory of fewer is lost in that of the instance itself."""
SHORTEST_SECONDS, LEAST_KILOBYTES = 0.001, 0.1
"""No less is drawn: clocks of two processes are compared, and what one has freed meanwhile counts too."""


def measure() -> Iterator[Figure | Note]:
    """Each crowd waits for one content."""
    most, notes = allowed_clients(SIZES[-1])
    yield from notes
    yield from drawn("waiting", partial(_charts, [min(size, most) for size in SIZES]))


def _charts(sizes: Sequence[int]) -> list[Chart]:
    taken, each, last = [], [], []
    with Stack(**PATIENCE) as stack:
        run(memory.gathered(stack, memory.FIRST))
        before = machine.memory(stack.pids("retry")).own
        for size in sizes:
            own = run(memory.gathered(stack, size)).own
            taken.append((size, own / MEGABYTE))
            if size >= FEWEST:
                each.append((size, max(LEAST_KILOBYTES, (own - before) / KILOBYTE / size)))
            rounds = [run(wake.woken(stack, size))[0] for _ in range(ROUNDS)]
            last.append((size, max(SHORTEST_SECONDS, median(rounds))))
    grows = "clients that wait"
    return [
        Chart("Memory of the waiting instance", grows, "MB", [Curve("its own, all clients in it", taken)]),
        Chart("Memory of each client", grows, "KB", [Curve("less what it has without them", each)]),
        Chart("Waking", grows, "s", [Curve("readiness to the last one redirected", last)]),
    ]
