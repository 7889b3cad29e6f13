"""`python -m benchmarks.due_feeds FEEDS DUE`: seconds that a scan takes to choose and order, on a database of its own.

DATABASE_URL names an empty one, which is filled. Prints the median of five scans as far as the order of what is due.
"""

import sys
import time
from datetime import UTC, datetime, timedelta
from random import Random
from statistics import median

import django

django.setup(set_prefix=False)

from django.core.management import call_command  # noqa: E402 - needs the apps

from feeds.gathering import due, scanning  # noqa: E402
from feeds.models import Feed  # noqa: E402

ROUNDS = 5
NOW = datetime(2026, 11, 1, tzinfo=UTC)


def main(feeds: int, number: int) -> None:
    call_command("migrate", verbosity=0)
    luck = Random(1)
    rows = [_row(place, place < number, luck) for place in range(feeds)]
    luck.shuffle(rows)
    Feed.objects.bulk_create(rows, batch_size=5000)
    took = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        line = scanning.ordered(due.due(NOW, scanning.MOST))
        took.append(time.perf_counter() - began)
        assert len(line) == number
    print(median(took))


def _row(place: int, is_due: bool, luck: Random) -> Feed:
    """Hosts of very different sizes; one feed in ten was never fetched."""
    host = f"{int(luck.paretovariate(0.7))}.example"
    due_at = (
        NOW - timedelta(seconds=luck.random() * 3600) if is_due else NOW + timedelta(seconds=1 + luck.random() * 3600)
    )
    return Feed(
        slug=f"feed-{place}",
        url=f"https://{host}/{place}",
        key_digest=f"{place:064}",
        host=host,
        next_check_at=due_at,
        expected_seconds=luck.lognormvariate(-0.7, 1.0) if luck.random() < 0.9 else None,
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
