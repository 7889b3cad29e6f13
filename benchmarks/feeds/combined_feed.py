"""Pages that combine many feeds: how long a worker takes to make them, with 100,000 entries in the database."""

from collections.abc import Iterator
from subprocess import CalledProcessError

from ..fetch import alone
from ..figures import Figure, Note

FEEDS, ENTRIES = 2_000, 50


def measure() -> Iterator[Figure | Note]:
    """Medians of five times each."""
    for database in (alone.SQLITE, alone.POSTGRESQL):
        yield Note(f"{database}, {FEEDS:,} feeds with {ENTRIES} entries each:")
        try:
            lines = alone.printed(
                "benchmarks.feeds.combined_pages", str(FEEDS), str(ENTRIES), database=database
            ).splitlines()
        except CalledProcessError as error:
            yield Note(error.stderr.strip().rpartition("\n")[2])
            continue
        for name, seconds, size in (line.split("\t") for line in lines):
            yield Figure(f"{name} ({int(size):,} bytes)", float(seconds), "s")
