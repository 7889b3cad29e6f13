"""More and more feeds, one in fifty of them due: the time of a scan before the handover."""

from collections.abc import Iterator

from ..feeds import order
from ..figures import Figure, Note
from .curve_chart import Chart, Curve
from .drawn import drawn

SIZES = (100, 1_000, 10_000, 100_000)
DUE_SHARE, DUE_LEAST = 50, 10


def measure() -> Iterator[Figure | Note]:
    """With SQLite, as in `ordering`."""
    yield from drawn("feeds", _charts)


def _charts() -> list[Chart]:
    chosen, whole = [], []
    for size in SIZES:
        choosing, everything = order.scanned(size, max(DUE_LEAST, size // DUE_SHARE))
        chosen.append((size, choosing))
        whole.append((size, everything))
    curves = [Curve("all of it, until they are handed over", whole), Curve("choosing and ordering what is due", chosen)]
    return [Chart("A scan, one feed in fifty is due", "feeds", "s", curves)]
