"""`python -m benchmarks.feeds.subscribed_feed`: a feed of a site that is its own hub, with subscribers in force.

Each line of its input is JSON: the callbacks, which makes them; or "change", which gives the feed another entry. Each
line of its output is JSON: the number of subscribers, or the time of the change in Unix seconds.
"""

import json
import sys
import time
from datetime import UTC, datetime, timedelta
from hashlib import sha256

import django

django.setup(set_prefix=False)

import project.celery  # noqa: E402, F401
from feeds import credentials, feed_rows  # noqa: E402
from feeds.hub_models import HubTopic, Subscriber  # noqa: E402
from feeds.models import Entry, Feed  # noqa: E402
from feeds.parser import documents  # noqa: E402
from feeds.parser.documents import ParsedEntry  # noqa: E402
from feeds.push.kinds import PushKind  # noqa: E402
from feeds.push.leases import SubscriberStatus  # noqa: E402

from .subscriber_origin import secret_of  # noqa: E402

ENTRIES, CHARACTERS = 50, 1000
URL = "https://publisher.example/feed"


def make(callbacks: list[str]) -> int:
    """The feed is fetched, and not due for a day."""
    now = datetime.now(UTC)
    known = {"url": URL, "key_digest": sha256(URL.encode()).hexdigest(), "host": "publisher.example"}
    times = {"checked_at": now, "fetched_at": now, "next_check_at": now + timedelta(days=1)}
    feed = Feed.objects.create(slug="subscribed", title="Subscribed", version=1, **known, **times)
    for number in range(ENTRIES):
        add(feed, number)
    topic = HubTopic.objects.create(feed=feed, path="/feeds/subscribed.atom", digest="1", version=1)
    rows = [subscriber(topic, callback, now) for callback in callbacks]
    return len(Subscriber.objects.bulk_create(rows, batch_size=500))


def subscriber(topic: HubTopic, callback: str, now: datetime) -> Subscriber:
    number = int(callback.rpartition("/")[2])
    return Subscriber(
        topic=topic,
        kind=PushKind.WEBSUB.value,
        callback=callback,
        host=callback.split("/")[2],
        digest=callback[-64:],
        sealed_secret=credentials.seal_password(secret_of(number)),
        state=SubscriberStatus.VERIFIED.value,
        verified_at=now,
        expires_at=now + timedelta(days=1),
        told_version=1,
        wanted_version=1,
    )


def add(feed: Feed, number: int) -> None:
    now, name = datetime.now(UTC), f"{URL}#{number}"
    entry = ParsedEntry(id=name, title=f"Entry {number}", link=name, published=now, content="x" * CHARACTERS)
    data = documents.encode_fields(entry)
    Entry.objects.create(
        feed=feed,
        identity=sha256(name.encode()).hexdigest()[:32],
        title=entry.title,
        data=data,
        size=documents.count_json_characters(data),
        happened_at=now,
        first_seen_at=now,
        changed_at=now,
    )


def change() -> float:
    feed = Feed.objects.get()
    add(feed, Entry.objects.count())
    feed_rows.touch_feeds([feed.pk], datetime.now(UTC))
    return time.time()


if __name__ == "__main__":
    for line in sys.stdin:
        match json.loads(line):
            case "change":
                print(json.dumps(change()), flush=True)
            case callbacks:
                print(json.dumps(make(callbacks)), flush=True)
