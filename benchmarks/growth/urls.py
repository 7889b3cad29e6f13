"""More and more mirrored URLs: storing some more of them, and looking some up."""

import json
from collections.abc import Iterator

from ..fetch import alone
from ..figures import Figure, Note
from .curve_chart import Chart, Curve
from .drawn import drawn

SIZES = (1_000, 10_000, 100_000, 1_000_000)
CURVES = {
    "stored": "stored: blob, row and what is known of it, 200 at a time",
    "database": "looked up in the database, 1,000 at a time",
    "redis": "looked up in Redis, 1,000 at a time",
}


def measure() -> Iterator[Figure | Note]:
    """CPU of the process that does it, with SQLite. No bytes: storing those does not depend on how many there are."""
    yield from drawn("urls", _charts)


def _charts() -> list[Chart]:
    # A process's own memory is not measured.
    lines = alone.printed("benchmarks.growth.url_rows", *map(str, SIZES), MIRROR_KNOWN_SECONDS="0.001").splitlines()
    found = [json.loads(line) for line in lines]
    curves = [
        Curve(name, [(size, one[key] * 1e6) for size, one in zip(SIZES, found, strict=True)])
        for key, name in CURVES.items()
    ]
    return [Chart("Mirrored URLs, CPU of each", "URLs that are known", "µs", curves)]
