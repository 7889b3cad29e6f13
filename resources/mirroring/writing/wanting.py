"""Wanted URLs: rows are the durable truth of what is to be fetched, and when."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from celery import current_app
from django.db.models import Case, DateTimeField, F, Q, QuerySet, Value, When
from kombu.exceptions import OperationalError

from resources.clocks import AHEAD
from resources.fetching.addressing import signed_urls
from resources.fetching.outcomes import Failure

from ..knowing import ordering, seen
from ..knowing.lanes import lanes_of
from ..knowing.models import Lane, Resource, State
from ..knowing.seen import Seen

FEED_TASK = "resources.feed_mirror"
QUEUE = "work"
DIGESTS_AT_ONCE = 500
"""In one statement that changes rows: for so long others who change them wait."""

DUE = ("pk", "url", "host", "attempts", "blob_digest", "step")

_log = logging.getLogger("tarry.mirroring")


@dataclass(frozen=True, slots=True)
class Wanted:
    """A URL as it was reported, by the digest of its canonical form."""

    url_digest: str
    url: str
    host: str
    referer: str
    wanted_at: datetime


@dataclass(frozen=True, slots=True)
class Due:
    """A row whose time has come."""

    url_digest: str
    url: str
    host: str
    attempts: int
    blob_digest: str
    step: str


def want(reports: Sequence[Wanted]) -> None:
    """Inserts rows for those that have none, joins those that are there, and has them fed. Raises DatabaseError.

    A row that waits, or that has failed because its signature had run out, takes a URL whose signature holds for
    longer. Nothing else changes what is stored or has failed.
    """
    lanes = lanes_of((one.url, one.host) for one in reports)
    rows = {one.url_digest: _row(one, lane) for one, lane in zip(reports, lanes, strict=True)}
    ordered = [rows[digest] for digest in sorted(rows)]
    Resource.objects.bulk_create(ordered, ignore_conflicts=True)
    _renew([row for row in ordered if row.expires_at is not None])
    seen.note_new({digest: Seen(State.WANTED) for digest in rows})
    feed_soon()


def _row(one: Wanted, lane: Lane) -> Resource:
    return Resource(
        url_digest=one.url_digest,
        url=one.url,
        host=one.host,
        referer=one.referer,
        state=State.WANTED,
        lane=lane,
        wanted_at=one.wanted_at,
        due_at=one.wanted_at,
        expires_at=_expiry(signed_urls.expires_at(one.url)),
    )


def _renew(signed: Sequence[Resource]) -> None:
    """A statement for each that is there with a signature that ends before; none for those that are new."""
    there: dict[str, datetime | None] = {}
    for some in _sliced([row.pk for row in signed], seen.AT_ONCE):
        there |= dict(_renewable(pk__in=some).values_list("pk", "expires_at"))
    for row in signed:
        before, until = there.get(row.pk), row.expires_at
        if before and until and before < until:
            changed = _renewable(pk=row.pk, expires_at__lt=until).update(
                url=row.url, expires_at=until, state=State.WANTED, due_at=row.due_at, failure="", detail=""
            )
            if changed:
                seen.forget([row.pk])


def _renewable(**named: Any) -> QuerySet[Resource]:
    """Of these rows, those that wait, or whose signature had run out."""
    return Resource.objects.filter(
        Q(state=State.WANTED) | Q(state=State.FAILED, failure=Failure.EXPIRED.value), **named
    )


def feed_soon() -> None:
    """Has a worker hand over what is due, without waiting for its next turn. Never fails."""
    try:
        current_app.send_task(FEED_TASK, queue=QUEUE, retry=False, ignore_result=True)
    except (OperationalError, OSError) as error:  # it has its turn every two seconds
        _log.warning("the feeder is not called", extra={"error": str(error)})


def set_right(now: datetime) -> None:
    """What was wanted by a clock that was ahead is due now, not when its hour comes again. Raises DatabaseError."""
    ahead = Resource.objects.filter(state=State.WANTED, wanted_at__gt=now + AHEAD)
    for keys in ordering.portions(ahead):
        ordering.update(ahead.filter(pk__in=keys), wanted_at=now, due_at=now)


def due(lane: Lane, now: datetime, most: int, but_hosts: Iterable[str] = (), *, expiring: bool = False) -> list[Due]:
    """What is to be fetched now: those whose signature runs out soonest, or the oldest. Raises DatabaseError."""
    rows = Resource.objects.filter(state=State.WANTED, lane=lane, due_at__lte=now).exclude(host__in=list(but_hosts))
    rows = rows.filter(expires_at__gt=now).order_by("expires_at") if expiring else rows.order_by("due_at")
    return [Due(*row) for row in rows.values_list(*DUE)[:most]]


def ended(url_digests: Sequence[str]) -> list[str]:
    """Those of them that are not wanted any more. Raises DatabaseError."""
    found = Resource.objects.exclude(state=State.WANTED).values_list("pk", flat=True)
    return [digest for some in _sliced(url_digests, seen.AT_ONCE) for digest in found.filter(pk__in=some)]


def look_again_at(url_digests: Sequence[str], at: datetime) -> None:
    """They are in hand: if they still wait then, somebody looks whether they are. Raises DatabaseError."""
    for some in _sliced(url_digests):
        _change(some, due_at=at)


def count_attempts(url_digests: Sequence[str]) -> None:
    """Each was in vain once more. Raises DatabaseError."""
    for some in _sliced(url_digests):
        _change(some, attempts=F("attempts") + 1)


def postpone(until: dict[str, datetime]) -> None:
    """They are not due before. Raises DatabaseError."""
    for some in _sliced(list(until)):
        moments = Case(
            *(When(pk=digest, then=Value(until[digest])) for digest in some),
            default=F("due_at"),
            output_field=DateTimeField(),
        )
        _change(some, due_at=moments)


def _change(url_digests: Sequence[str], **values: Any) -> None:
    """Changes rows that are wanted."""
    ordering.update(Resource.objects.filter(pk__in=url_digests, state=State.WANTED), **values)


def expired(now: datetime, most: int) -> list[Due]:
    """Those whose signature has run out before they were fetched, so many of each lane. Raises DatabaseError."""
    over = Resource.objects.filter(state=State.WANTED, due_at__lte=now, expires_at__lte=now).order_by("expires_at")
    rows = [row for lane in Lane for row in over.filter(lane=lane).values_list(*DUE)[:most]]
    return [Due(*row) for row in rows]


def _expiry(seconds: float | None) -> datetime | None:
    """A moment in Unix seconds as rows keep it; None for one that no calendar has."""
    try:
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return None


def _sliced(digests: Sequence[str], most: int = DIGESTS_AT_ONCE) -> Iterable[Sequence[str]]:
    ordered = sorted(digests)
    return (ordered[start : start + most] for start in range(0, len(ordered), most))
