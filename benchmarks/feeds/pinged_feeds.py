"""`python -m benchmarks.feeds.pinged_feeds`: feeds with subscriptions in force, in a site's environment.

Each line of its input is JSON: how many there are to be and the origin's port, which makes them; a number of entries,
which waits until all have so many; or "flag", which flags all of them. Each line of its output is JSON.
"""

import json
import sys
import time
from datetime import UTC, datetime, timedelta

import django

django.setup(set_prefix=False)

import project.celery  # noqa: E402, F401
from feeds import addresses, catalogue, feed_rows  # noqa: E402
from feeds.hub_models import Hub, Subscription  # noqa: E402
from feeds.models import Entry, Feed  # noqa: E402
from feeds.opml import ListedFeed as Listed  # noqa: E402
from feeds.push.kinds import PushKind  # noqa: E402
from feeds.push.leases import SubscriptionStatus  # noqa: E402
from feeds.push.offers import PushOffer  # noqa: E402

MOST_SECONDS = 90
SERVER = "http://cloud.example/notify"


def make(number: int, port: int) -> list[list[str]]:
    """Their tokens, URLs and slugs. They are fetched at once."""
    now = datetime.now(UTC)
    urls = [f"http://127.0.{place // 250 + 1}.{place % 250 + 1}:{port}/feed" for place in range(number)]
    feeds = catalogue.add_feeds([Listed(addresses.read_address(url)) for url in urls], now).feeds
    hub = Hub.objects.create(
        kind=PushKind.RSSCLOUD.value, url=SERVER, digest=PushOffer(PushKind.RSSCLOUD, SERVER, "").hub_digest
    )
    later = {"verified_at": now, "asked_at": now, "expires_at": now + timedelta(days=1)}
    rows = [
        Subscription(
            feed=feed,
            hub=hub,
            topic=feed.url,
            token=f"t{feed.pk:042}",
            state=SubscriptionStatus.VERIFIED.value,
            **later,
        )
        for feed in feeds
    ]
    Subscription.objects.bulk_create(rows)
    feed_rows.flag_feeds([feed.pk for feed in feeds], now)
    return [[row.token, row.topic, feed.slug] for row, feed in zip(rows, feeds, strict=True)]


def wait_for(entries: int) -> dict[str, float]:
    """The time of each feed's last entry, in Unix seconds, by its URL."""
    until = time.monotonic() + MOST_SECONDS
    while Entry.objects.count() < entries * Feed.objects.count() and time.monotonic() < until:
        time.sleep(0.2)
    return {url: at.timestamp() for url, at in Feed.objects.values_list("url", "changed_at") if at}


if __name__ == "__main__":
    for line in sys.stdin:
        match json.loads(line):
            case [number, port]:
                print(json.dumps(make(number, port)), flush=True)
            case "flag":
                print(
                    feed_rows.flag_feeds(list(Feed.objects.values_list("pk", flat=True)), datetime.now(UTC)), flush=True
                )
            case entries:
                print(json.dumps(wait_for(entries)), flush=True)
