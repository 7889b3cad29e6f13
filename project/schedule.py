"""What beat publishes, and how often. Knows the tasks by their names alone."""

from datetime import UTC, datetime
from typing import Any

QUEUE = "work"
LEAST_EXPIRY_SECONDS = 10

Entry = tuple[str, str, float]
"""Name, task, seconds from one time to the next."""

ALWAYS: tuple[Entry, ...] = (
    ("sweep", "retry.sweep", 2),
    ("mirror feed", "resources.feed_mirror", 2),
    ("batches", "resources.look_after_batches", 2),
    ("lost batches", "resources.heal_batches", 20),
    ("url keys", "resources.rekey_urls", 10),
    ("url rules", "resources.learn_url_rules", 300),
    ("sweep blobs", "resources.sweep_blobs", 60),
    ("fetch limits", "resources.apply_fetch_limits", 30),
    ("fetch timings", "resources.prune_fetch_timings", 60),
    ("fetch headers", "resources.reseal_fetch_headers", 120),
    ("feeds prune", "feeds.prune", 60),
    ("feed secrets", "feeds.reseal", 120),
    ("subscriptions", "feeds.subscribe", 60),
    ("failing feeds", "feeds.tell_of_failing", 300),
)
DEMO: Entry = ("demo", "resources.vary_demo", 15)
PRUNING: Entry = ("prune blobs", "resources.prune_blobs", 300)
TRAFFIC: Entry = ("traffic", "resources.read_traffic", 2)
HUB: Entry = ("hub", "feeds.tell_hub", 5)
READERS: Entry = ("feed readers", "feeds.count_readers", 60)
SCAN, SCAN_TASK = "feeds scan", "feeds.scan"

_LONG_AGO = {"last_run_at": datetime(1970, 1, 1, tzinfo=UTC)}
"""Of a new site's beat. All others it publishes for the first time when their time has passed once."""


def schedule(*entries: Entry) -> dict[str, dict[str, Any]]:
    """Celery's schedule of the entries. What waited until the next time or longer is dropped: one is enough."""
    return {
        name: {
            "task": task,
            "schedule": float(seconds),
            "options": {"queue": QUEUE, "expires": max(LEAST_EXPIRY_SECONDS, seconds)},
            **(_LONG_AGO if name == SCAN else {}),
        }
        for name, task, seconds in entries
    }
