"""`python -m benchmarks.scanned`: feeds of a site, in its environment: put there, made due, looked at.

Each line of its input is JSON, a name of a function here and its arguments; each line of its output what that says.
Moments are Unix seconds.
"""

import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256

import django

django.setup(set_prefix=False)

from django.db.models import Max  # noqa: E402 - needs the apps

from feeds.keeping import flagging  # noqa: E402
from feeds.models import Entry, Feed  # noqa: E402
from project import celery  # noqa: E402, F401  scans are asked for at its broker
from resources.fetching.addressing.scopes import scopes  # noqa: E402
from resources.fetching.queues import domains, frontier, tuning  # noqa: E402
from retry import connections  # noqa: E402


def add(urls: Sequence[str], name: str) -> list[str]:
    """Puts feeds there that are not due before tomorrow; their slugs."""
    later = datetime.now(UTC) + timedelta(days=1)
    rows = [
        Feed(
            slug=f"{name}-{number}",
            url=url,
            key_digest=sha256(url.encode()).hexdigest(),
            host=scopes(url).host,
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
    flagging.ask_for_scan()
    return now.timestamp()


def left(name: str, since: float) -> int:
    """How many have not come back since."""
    began = datetime.fromtimestamp(since, UTC)
    return Feed.objects.filter(slug__startswith=f"{name}-").exclude(checked_at__gte=began).count()


def ended(name: str) -> dict[str, float]:
    """When the last of them was stored, and when they were on average; how many have no entries, or failed."""
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
    hosts = sorted({scopes(url).host for url in urls})
    now_ms, records = connections.run(frontier.look_at_all(hosts))
    found = {}
    for host, record in zip(hosts, records, strict=True):
        stands = domains.read(host, now_ms, record, tuning.politeness())
        found[host] = [stands.most_in_flight, stands.gap_seconds]
    return found


CALLS = {each.__name__: each for each in (add, make_due, left, ended, limits)}


def main() -> None:
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        print(json.dumps(CALLS[name](*arguments)), flush=True)


if __name__ == "__main__":
    main()
