"""How scans went: what each handed over, and how long all of it took beside the least that it could have."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from ..models import Feed, Scan
from ..scheduling.fetches import Fetch

LONGEST = timedelta(days=1)
"""A scan that has not ended by then ends: its feeds were lost, or are postponed again and again."""


Bounding = Callable[[Sequence[Fetch]], float]
"""The least seconds that fetches can take."""


def begin(fetches: Sequence[Fetch], least_seconds: float, now: datetime) -> Scan:
    """A scan that is about to hand those over. Raises DatabaseError."""
    hosts = len({fetch.host for fetch in fetches})
    return Scan.objects.create(started_at=now, feeds=len(fetches), hosts=hosts, expected_seconds=least_seconds)


def note(scan: Scan, handed_over: int) -> None:
    """How many it really has handed over; none, and there was no scan."""
    if handed_over:
        Scan.objects.filter(pk=scan.pk).update(feeds=handed_over)
    else:
        scan.delete()


def end_finished(now: datetime, least_seconds: Bounding) -> None:
    """Notes the end of scans all of whose feeds have come back. Raises DatabaseError."""
    for scan in Scan.objects.filter(ended_at=None):
        taken = Feed.objects.filter(scan=scan)
        is_open = taken.filter(paused=False, handed_over_at__isnull=False).exists()
        if not is_open or scan.started_at < now - LONGEST:
            _end(scan, now, least_seconds)


def _end(scan: Scan, now: datetime, least_seconds: Bounding) -> None:
    """By those of its feeds that really were fetched, and not again since."""
    names = ("pk", "host", "last_seconds", "checked_at")
    rows = Feed.objects.filter(scan=scan, checked_at__gte=scan.started_at).values_list(*names)
    fetches = [Fetch(str(pk), host, seconds or 0.0) for pk, host, seconds, _ in rows]
    ended_at = max((checked_at for *_, checked_at in rows if checked_at), default=None)
    fields: dict[str, object] = {"ended_at": ended_at or now}
    if ended_at is not None:
        took = (ended_at - scan.started_at).total_seconds()
        fields |= {"makespan_seconds": took, "bound_seconds": least_seconds(fetches)}
    Scan.objects.filter(pk=scan.pk).update(**fields)


def prune(before: datetime) -> None:
    """Removes scans that began before. Raises DatabaseError."""
    Scan.objects.filter(started_at__lt=before).delete()
