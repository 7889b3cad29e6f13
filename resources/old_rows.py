"""Old rows: the kinds of rows that go with time, how long each is kept, and their removal.

Rows with the word of an admin stay, and so do rows that others refer to: the module of each kind finds those that may
go. They go a portion at a time, each in a transaction of its own that looks again at what it locks: so no writer waits
for long, nothing that was used meanwhile goes, and a stopped run has done a part of the work.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.sessions.models import Session
from django.db.models import QuerySet

from retry import lanes
from retry.errors import QueueUnavailable

from . import database
from .fetch import host_settings
from .mirror import hosts, url_rules
from .mirror.ingest import wanted_urls
from .mirror.models import Batch, Tally
from .prewarm import run_records

PRUNE_TASK, PRUNE_QUEUE = "resources.prune", "work"
MAX_DAYS = 36_500
"""A hundred years: settings beyond it mean for ever, and the calendar has no such date."""

_log = logging.getLogger("tarry.tasks")


def _remove_rows(rows: QuerySet[Any], keys: Sequence[Any]) -> int:
    return database.delete_in_order(rows.filter(pk__in=keys))


@dataclass(frozen=True, slots=True)
class RowKind:
    """A kind of rows: its name for people, its setting in days, and how to find the rows not needed since a moment.

    `remove` removes those with these keys, and returns their number. `most_at_once` is smaller for large rows: while
    they go, SQLite has no other writer.
    """

    name: str
    setting: str
    find: Callable[[datetime], QuerySet[Any]]
    remove: Callable[[QuerySet[Any], Sequence[Any]], int] = _remove_rows
    most_at_once: int | None = None

    def find_old(self, now: datetime) -> QuerySet[Any]:
        days = getattr(settings, self.setting) if self.setting else 0
        return self.find(now - timedelta(days=min(days, MAX_DAYS)))


def _find_old_batches(at: datetime) -> QuerySet[Batch]:
    """Returns lists without a call ahead. Their items, up to 10,000 of each, go with them."""
    return Batch.objects.filter(finished_at__lt=at, call_at=None)


KINDS = (
    RowKind("domains", "FETCH_TIMINGS_DAYS", host_settings.find_unused_domains),
    RowKind("mirrored hosts", "MIRROR_LEARNT_DAYS", hosts.find_unused_hosts),
    RowKind("proposed rules for URLs", "MIRROR_LEARNT_DAYS", url_rules.find_undecided_rules),
    RowKind("failed URLs", "MIRROR_FAILED_DAYS", wanted_urls.find_old_failures, wanted_urls.remove_failures, 100),
    RowKind("counts of ingest efficiency", "MIRROR_TALLY_DAYS", lambda at: Tally.objects.filter(hour__lt=at)),
    RowKind("reported lists", "MIRROR_BATCH_DAYS", _find_old_batches, most_at_once=1),
    RowKind("runs of pre-warming", "", run_records.find_old_records),
    RowKind("sessions of the admin", "", lambda at: Session.objects.filter(expire_date__lt=at)),
)


def prune_rows(now: datetime) -> Iterator[tuple[RowKind, int]]:
    """Removes old rows of all kinds; yields the kind and the number of each portion. Raises DatabaseError."""
    for kind in KINDS:
        rows = kind.find_old(now)
        for keys in database.key_portions(rows, kind.most_at_once):
            yield kind, kind.remove(rows, keys)


def prune_rows_for(seconds: float, now: datetime) -> bool:
    """Removes old rows for about `seconds`, at least a portion. True if none is left. Raises DatabaseError."""
    until, gone, is_time_up = time.monotonic() + seconds, Counter[str](), False
    for kind, number in prune_rows(now):
        gone[kind.name] += number
        if is_time_up := time.monotonic() >= until:
            break
    if gone:
        _log.info("old rows were removed", extra={"rows": dict(gone)})
    return not is_time_up


def continue_pruning() -> None:
    """Has another task go on, at the end of the queue: other work comes first. Without a broker, the next day does."""
    try:
        lanes.send_task(PRUNE_TASK, (), PRUNE_QUEUE)
    except QueueUnavailable as error:
        _log.warning("old rows stay until tomorrow", extra={"error": str(error)})
