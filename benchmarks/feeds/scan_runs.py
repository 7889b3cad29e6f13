"""`python -m benchmarks.feeds.scan_runs`: creates feeds of a site, makes them due, reads them, in its environment.

Each line of its input is JSON, a name of a function here and its arguments; each line of its output is the result.
Moments are Unix seconds.
"""

import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256

import django

django.setup(set_prefix=False)

from django.db.models import Max  # noqa: E402

from feeds import feed_rows  # noqa: E402
from feeds.models import Entry, Feed, Scan  # noqa: E402
from feeds.scan import scanner  # noqa: E402
from project import celery  # noqa: E402, F401
from resources.fetch.frontier import explain, queue  # noqa: E402
from resources.fetch.http.limit_scopes import url_scopes  # noqa: E402
from retry import stores  # noqa: E402


def add(urls: Sequence[str], name: str) -> list[str]:
    """Puts feeds there that are not due before tomorrow; their slugs."""
    later = datetime.now(UTC) + timedelta(days=1)
    rows = [
        Feed(
            slug=f"{name}-{number}",
            url=url,
            key_digest=sha256(url.encode()).hexdigest(),
            host=url_scopes(url).host,
            next_check_at=later,
        )
        for number, url in enumerate(urls)
    ]
    Feed.objects.bulk_create(rows)
    return [row.slug for row in rows]


def make_due(name: str) -> float:
    """Has all of them fetched, as if their time had come; when that was."""
    now = datetime.now(UTC)
    Feed.objects.filter(slug__startswith=f"{name}-").update(next_check_at=now)
    feed_rows.ask_for_scan()
    return now.timestamp()


def left(name: str, since: float) -> int:
    """The number of feeds that have not come back since then."""
    began = datetime.fromtimestamp(since, UTC)
    return Feed.objects.filter(slug__startswith=f"{name}-").exclude(checked_at__gte=began).count()


def ended(name: str) -> dict[str, float]:
    """The time when the last of them was stored, and the mean time; the numbers without entries, and failed."""
    feeds = Feed.objects.filter(slug__startswith=f"{name}-")
    known = Entry.objects.values("feed")
    took = feeds.aggregate(last=Max("checked_at"))
    moments = [at.timestamp() for at in feeds.values_list("checked_at", flat=True) if at]
    return {
        "last": took["last"].timestamp(),
        "mean": sum(moments) / len(moments),
        "empty": feeds.exclude(pk__in=known).count(),
        "failed": feeds.exclude(trouble="").count(),
    }


def limits(urls: Sequence[str]) -> dict[str, list[float]]:
    """By host, how many may be in flight there and the seconds of the gap, as they are now."""
    hosts = sorted({url_scopes(url).host for url in urls})
    now_ms, records = stores.run_steps(queue.read_domain_records(hosts))
    found = {}
    for host, record in zip(hosts, records, strict=True):
        stands = explain.parse_domain(host, now_ms, record, queue.configured_politeness())
        found[host] = [stands.most_in_flight, stands.gap_seconds]
    return found


def shown_bound(since: float) -> float:
    """Ends the scans, and returns the highest lower bound that is shown for one since then."""
    scanner.end_finished_scans(datetime.now(UTC), scanner.bound_fetch_seconds)
    scans = Scan.objects.filter(started_at__gte=datetime.fromtimestamp(since, UTC))
    return max(bound or 0.0 for bound in scans.values_list("bound_seconds", flat=True))


CALLS = {each.__name__: each for each in (add, make_due, left, ended, limits, shown_bound)}


def main() -> None:
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        print(json.dumps(CALLS[name](*arguments)), flush=True)


if __name__ == "__main__":
    main()
