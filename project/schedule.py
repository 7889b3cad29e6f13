"""The tasks that beat publishes, with their intervals. Knows the tasks by their names alone."""

from datetime import UTC, datetime
from typing import Any

BEAT_QUEUE = "work"

BeatEntry = tuple[str, str, float]
"""Name, task, interval in seconds."""

ALWAYS: tuple[BeatEntry, ...] = (
    ("sweep", "retry.sweep", 2),
    ("mirror feed", "resources.feed_mirror", 2),
    ("batches", "resources.look_after_batches", 2),
    ("lost batches", "resources.heal_batches", 20),
    ("url keys", "resources.rekey_urls", 10),
    ("url rules", "resources.learn_url_rules", 300),
    ("fetch limits", "resources.apply_fetch_limits", 30),
    ("fetch timings", "resources.prune_fetch_timings", 60),
    ("fetch headers", "resources.reseal_fetch_headers", 120),
    ("feeds prune", "feeds.prune", 60),
    ("feed changes", "feeds.number_changes", 10),
    ("feed filters", "feeds.judge_entries", 10),
    ("feed webhooks", "feeds.call_webhooks", 5),
    ("feed secrets", "feeds.reseal", 120),
    ("subscriptions", "feeds.subscribe", 60),
    ("failing feeds", "feeds.tell_of_failing", 300),
    ("prune", "resources.prune", 86_400),
)
OWN: tuple[BeatEntry, ...] = (("sweep blobs", "resources.sweep_blobs", 60),)
"""What each machine does for itself: with its own files."""
DEMO: BeatEntry = ("demo", "resources.vary_demo", 15)
PRUNING: BeatEntry = ("prune blobs", "resources.prune_blobs", 300)
MAKING_ROOM: BeatEntry = ("make room", "resources.make_room", 5)
TRAFFIC: BeatEntry = ("traffic", "resources.read_traffic", 2)
PREWARMED: BeatEntry = ("prewarmed", "resources.settle_prewarm", 5)
HUB: BeatEntry = ("hub", "feeds.tell_hub", 5)
OWN_HUB: BeatEntry = ("hub", "feeds.distribute", 2)
READERS: BeatEntry = ("feed readers", "feeds.count_readers", 60)
SCAN, SCAN_TASK = "feeds scan", "feeds.scan"

LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
AT_ONCE = frozenset({SCAN, "prune"})
"""Due when the site starts: a new site has feeds to scan, one that is started each morning has old rows too.

Other tasks are published first after their interval.
"""


def waiting_key(task: str, queue: str) -> str:
    """The key in `state` that tells that a message of this scheduled task waits in the queue."""
    return f"beat:waiting:{queue}:{task}"


def machine_queue(machine: str) -> str:
    """The queue of the tasks that only this machine can do."""
    return f"{BEAT_QUEUE}.{machine}"


def beat_schedule(*entries: BeatEntry, queue: str = BEAT_QUEUE) -> dict[str, dict[str, Any]]:
    """Celery's schedule of the entries, for that queue."""
    return {
        name: {
            "task": task,
            "schedule": float(seconds),
            "options": {"queue": queue},
            **({"last_run_at": LONG_AGO} if name in AT_ONCE else {}),
        }
        for name, task, seconds in entries
    }
