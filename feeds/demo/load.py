"""Loads the demo's feeds: a list of well-known ones, as anybody's own list is taken in.

Where the machine has no way out, the front serves sample feeds at an address of their own (SAMPLES), labelled so.
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

from feeds import addresses
from feeds.keeping import adding, lists, versions
from feeds.models import Feed
from feeds.opml import reading

DATA = Path(__file__).parent / "data"
SAMPLES = DATA / "samples"
NAME = "feeds"
"""How the file calls them that remembers what a site was offered."""
CATEGORY = ("Samples",)
TITLES = {
    "harbour.atom": "Sample: Harbour Log",
    "kitchen.rss": "Sample: The Slow Kitchen",
    "orchard.json": "Sample: Orchard Notes",
}
PROBE_SECONDS = 3.0
PROBED = 4


def load_once(report: Callable[[str], None], memory: Path, now: datetime, samples: str) -> None:
    """Loads the feeds if they were never offered to this site, and remembers that. Raises FeedError, DatabaseError.

    `samples` is where the front serves the sample feeds: host and port; empty where it does not.
    """
    offered = memory.read_text().split() if memory.exists() else []
    if NAME in offered:
        return
    load(report, now, samples)
    written = memory.with_name(f"{memory.name}.new")
    written.write_text("".join(f"{name}\n" for name in sorted({*offered, NAME})))
    written.replace(memory)


def load(report: Callable[[str], None], now: datetime, samples: str) -> None:
    """Adds the well-known feeds, and the samples, if any, where none of those can be reached. What is there stays."""
    found = reading.parse((DATA / "feeds.opml").read_bytes())
    added = sum(part.added for part in lists.take_in(found, None, now))
    report(f"{added} feeds")
    hosts = [urlsplit(each.address.url).hostname or "" for each in found.subscriptions[:PROBED]]
    if samples and not is_online(hosts):
        number = _add_samples(now, samples)
        report(f"{number} sample feeds: this machine has no way out")


def is_online(hosts: Collection[str]) -> bool:
    """Whether one of these hosts can be connected to within PROBE_SECONDS. Asks them nothing."""
    answers = SimpleQueue[bool]()
    until = time.monotonic() + PROBE_SECONDS
    for host in hosts:  # look-ups of names have no limit of their own: no process waits for these threads at its end
        Thread(target=_answer, args=(host, answers), daemon=True).start()
    with suppress(Empty):
        for _ in hosts:
            if answers.get(timeout=max(0.0, until - time.monotonic())):
                return True
    return False


def _answer(host: str, answers: SimpleQueue[bool]) -> None:
    answers.put(_connects(host))


def _connects(host: str) -> bool:
    try:
        socket.create_connection((host, 443), PROBE_SECONDS).close()
    except OSError:
        return False
    return True


def _add_samples(now: datetime, samples: str) -> int:
    made = [
        adding.add(addresses.read(f"http://{samples}/{name}"), title=title, categories=[CATEGORY], now=now)
        for name, title in TITLES.items()
    ]
    Feed.objects.filter(pk__in=[feed.pk for feed, _ in made]).update(is_sample=True)
    versions.touch([feed.pk for feed, _ in made], now)
    return sum(is_new for _, is_new in made)
