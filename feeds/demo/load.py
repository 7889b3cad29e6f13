"""Loads the demo's feeds: a list of well-known ones, imported as a user's own list is.

If the machine has no network, the front serves sample feeds at an address of their own (SAMPLES), labelled so.
"""

import socket
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from urllib.parse import urlsplit

from .. import addresses, catalogue, feed_rows, opml
from ..models import Feed

DATA_FOLDER = Path(__file__).parent / "data"
MEMORY_NAME = "feeds"
SAMPLES_CATEGORY = ("Samples",)
SAMPLE_TITLES = {
    "harbour.atom": "Sample: Harbour Log",
    "kitchen.rss": "Sample: The Slow Kitchen",
    "orchard.json": "Sample: Orchard Notes",
}
PROBE_SECONDS = 3.0
MAX_PROBED_HOSTS = 4


def load_demo_feeds_once(report: Callable[[str], None], memory: Path, now: datetime, samples: str) -> None:
    """Loads the feeds if they were never offered to this site, and remembers that. Raises FeedError, DatabaseError.

    `samples` is the host and port where the front serves the sample feeds; empty if it does not.
    """
    offered = memory.read_text().split() if memory.exists() else []
    if MEMORY_NAME in offered:
        return
    load_demo_feeds(report, now, samples)
    written = memory.with_name(f"{memory.name}.new")
    written.write_text("".join(f"{name}\n" for name in sorted({*offered, MEMORY_NAME})))
    written.replace(memory)


def load_demo_feeds(report: Callable[[str], None], now: datetime, samples: str) -> None:
    """Adds the well-known feeds; if none of them can be reached, also the samples, if any. Existing feeds stay."""
    found = opml.parse_opml((DATA_FOLDER / "feeds.opml").read_bytes())
    added = sum(part.added for part in catalogue.import_list(found, None, now))
    report(f"{added} feeds")
    hosts = [urlsplit(each.address.url).hostname or "" for each in found.subscriptions[:MAX_PROBED_HOSTS]]
    if samples and not is_online(hosts):
        number = _add_samples(now, samples)
        report(f"{number} sample feeds: this machine has no internet access")


def is_online(hosts: Collection[str]) -> bool:
    """Tells whether one of these hosts accepts a connection within PROBE_SECONDS. Sends no request."""
    answers = SimpleQueue[bool]()
    until = time.monotonic() + PROBE_SECONDS
    for host in hosts:  # name look-ups have no limit of their own: no process waits for these threads at its end
        Thread(target=lambda name=host: answers.put(_connects(name)), daemon=True).start()
    with suppress(Empty):
        for _ in hosts:
            if answers.get(timeout=max(0.0, until - time.monotonic())):
                return True
    return False


def _connects(host: str) -> bool:
    try:
        socket.create_connection((host, 443), PROBE_SECONDS).close()
    except OSError:
        return False
    return True


def _add_samples(now: datetime, samples: str) -> int:
    made = [
        catalogue.add_feed(
            addresses.read_address(f"http://{samples}/{name}"), title=title, categories=[SAMPLES_CATEGORY], now=now
        )
        for name, title in SAMPLE_TITLES.items()
    ]
    Feed.objects.filter(pk__in=[feed.pk for feed, _ in made]).update(is_sample=True)
    feed_rows.touch_feeds([feed.pk for feed, _ in made], now)
    return sum(is_new for _, is_new in made)
