"""`python -m benchmarks.feeds.due_feeds FEEDS DUE`: seconds of a scan before the handover, on its own database.

DATABASE_URL names an empty database, which is filled, REDIS_URL an empty Redis. Prints two medians of five scans: of
choosing and ordering the due feeds, and of all steps before the handover. Before each scan, another one of as many
feeds has ended, and ten go on.
"""

import sys
import time
from datetime import UTC, datetime, timedelta
from random import Random
from statistics import median

import django

django.setup(set_prefix=False)

from django.core.management import call_command  # noqa: E402

from feeds.models import Feed, Scan  # noqa: E402
from feeds.pages.work import SCAN_LANE  # noqa: E402
from feeds.scan import due, scanner  # noqa: E402
from resources.fetch import dispatch  # noqa: E402

ROUNDS = 5
OPEN = 10
"""Scans that go on."""
NOW = datetime(2026, 11, 1, tzinfo=UTC)


def main(feeds: int, number: int) -> None:
    call_command("migrate", verbosity=0)
    luck = Random(1)
    rows = [_row(place, place < number, luck) for place in range(feeds)]
    luck.shuffle(rows)
    Feed.objects.bulk_create(rows, batch_size=5000)
    _begin_others(number)
    took = [_scan(number) for _ in range(ROUNDS)]
    print(*(median(each) for each in zip(*took, strict=True)))


def _begin_others(number: int) -> None:
    """Scans whose feeds are in hand for less than a minute."""
    others = Feed.objects.filter(next_check_at__gt=NOW).values_list("pk", flat=True)[: min(number, 2_000)]
    for place in range(OPEN):
        part = list(others)[place::OPEN]
        scan = scanner.record_scan([], 0, NOW)
        Feed.objects.filter(pk__in=part).update(scan=scan, handed_over_at=NOW)


def _scan(number: int) -> tuple[float, float]:
    """Seconds of choosing and ordering, and of all before a feed is handed over."""
    ended = scanner.record_scan([], 0, NOW - timedelta(minutes=1))
    back = Feed.objects.filter(next_check_at__gt=NOW, handed_over_at=None).values("pk")[:number]
    Feed.objects.filter(pk__in=list(back.values_list("pk", flat=True))).update(
        scan=ended, checked_at=NOW, last_seconds=1.0
    )
    began = time.perf_counter()
    scanner.end_finished_scans(NOW, scanner.bound_fetch_seconds)
    most, chooses = min(dispatch.read_lane_room(SCAN_LANE), scanner.MAX_FEEDS_PER_SCAN), time.perf_counter()
    line = scanner.order_feeds(due.due_feeds(NOW, most))
    ordered = time.perf_counter()
    fetches = [fetch for _, fetch in line]
    scanner.record_scan(fetches, scanner.bound_fetch_seconds(fetches), NOW)
    whole = time.perf_counter() - began
    assert len(line) == number
    assert Scan.objects.filter(ended_at=None).count() == OPEN + 1
    Scan.objects.filter(ended_at=None, feeds=number).delete()
    return ordered - chooses, whole


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
