"""Searches in many entries: how long the database takes to find those of a page, and what its index of words costs."""

from collections.abc import Iterator
from subprocess import CalledProcessError

from ..fetch import alone
from ..figures import Figure, Note

SMALL, LARGE = 100_000, 1_000_000
MOST_SECONDS = {SMALL: 0.05, LARGE: 0.2}
"""For the median of each search."""


def measure() -> Iterator[Figure | Note]:
    yield from _measure(SMALL)


def measure_large() -> Iterator[Figure | Note]:
    """Takes an hour, and 8 GB of a disk."""
    yield from _measure(LARGE)


def _measure(entries: int) -> Iterator[Figure | Note]:
    for database in (alone.SQLITE, alone.POSTGRESQL):
        yield Note(f"{database}, {entries:,} entries:")
        try:
            printed = alone.printed("benchmarks.feeds.searched_entries", str(entries), database=database)
        except CalledProcessError as error:
            yield Note(error.stderr.strip().rpartition("\n")[2])
            continue
        for line in printed.splitlines():
            yield from _read_line(line, MOST_SECONDS[entries])


def _read_line(line: str, most: float) -> Iterator[Figure | Note]:
    match line.split("\t"):
        case ["index", name, value, unit]:
            yield Figure(f"the index of words {name}", float(value), unit)
        case ["store", name, middle, high]:
            yield Figure(f"an entry is stored {name}; p99 {float(high) * 1000:.2f} ms", float(middle) * 1000, "ms")
        case ["search", name, middle, high, found]:
            yield Figure(f"{name}, {found} found; p99 {float(high):.3f} s", float(middle), "s", at_most=most)
