"""How scans went: what each handed over, and how long all of it took beside the least that it could have."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from django.db.models import Exists, OuterRef

from ..models import Feed, Scan
from ..scheduling.fetches import Fetch

LONGEST = timedelta(days=1)
"""A scan that has not ended by then ends: its feeds were lost."""
MOST_ENDED = 5
"""In one pass: each begins one at the most."""

Bounding = Callable[[Sequence[Fetch]], float]
"""The least seconds that fetches can take."""


def begin(fetches: Sequence[Fetch], least_seconds: float, now: datetime) -> Scan:
    """A scan that is about to hand those over. Raises DatabaseError."""
    hosts = len({fetch.host for fetch in fetches})
    return Scan.objects.create(started_at=now, feeds=0, hosts=hosts, expected_seconds=least_seconds)


def note(scan: Scan, handed_over: int) -> None:
    """How many it really has handed over; none, and there was no scan."""
    if handed_over:
        Scan.objects.filter(pk=scan.pk).update(feeds=handed_over)
    else:
        scan.delete()


def end_finished(now: datetime, least_seconds: Bounding) -> None:
    """Notes the end of scans all of whose feeds have come back, a few at a time. Raises DatabaseError.

    Of one that has lost some for so long that nobody waits any more it is not known how long it took.
    """
    out = Feed.objects.filter(scan=OuterRef("pk"), paused=False, handed_over_at__isnull=False)
    over = Scan.objects.filter(ended_at=None).annotate(is_open=Exists(out)).order_by("started_at")
    given_up = over.filter(is_open=True, started_at__lt=now - LONGEST).values_list("pk", flat=True)
    Scan.objects.filter(pk__in=list(given_up)).update(ended_at=now)
    for scan in over.filter(is_open=False)[:MOST_ENDED]:
        _end(scan, now, least_seconds)


def _end(scan: Scan, now: datetime, least_seconds: Bounding) -> None:
    """By those of its feeds that really were fetched, and not again since."""
    names = ("pk", "host", "last_seconds", "checked_at")
    rows = Feed.objects.filter(scan=scan, checked_at__gte=scan.started_at).values_list(*names)
    fetches = [Fetch(str(pk), host, seconds or 0.0) for pk, host, seconds, _ in rows]
    ended_at = max((checked_at for *_, checked_at in rows if checked_at), default=None)
    fields: dict[str, object] = {"ended_at": ended_at or now}
    if not scan.feeds:
        fields |= _of_killed(scan, least_seconds)
    if ended_at is not None:
        took = (ended_at - scan.started_at).total_seconds()
        fields |= {"makespan_seconds": took, "bound_seconds": least_seconds(fetches)}
    Scan.objects.filter(pk=scan.pk).update(**fields)


def _of_killed(scan: Scan, least_seconds: Bounding) -> dict[str, object]:
    """What a scan that was killed had handed over by then, as far as no other has taken it since."""
    rows = Feed.objects.filter(scan=scan).values_list("pk", "host", "expected_seconds")
    fetches = [Fetch(str(pk), host, seconds or 0.0) for pk, host, seconds in rows]
    hosts = len({fetch.host for fetch in fetches})
    return {"feeds": len(fetches), "hosts": hosts, "expected_seconds": least_seconds(fetches)}


def prune(before: datetime) -> None:
    """Removes scans that began before. Raises DatabaseError."""
    Scan.objects.filter(started_at__lt=before).delete()
