"""Wanted URLs: the rows that say which URLs to fetch, and when, and the work of fetching one.

An admin can have URLs fetched once more: stored content stays until the origin has something else.
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from celery import current_app
from django.db.models import Case, DateTimeField, F, Q, QuerySet, Value, When
from kombu.exceptions import OperationalError

from resources import database
from resources.clock import MAX_CLOCK_LEAD
from resources.fetch.http import url_syntax
from resources.fetch.http.messages import Failure
from retry.work import Work

from .. import hosts, lookup
from ..hosts import choose_lanes
from ..lookup import UrlStatus
from ..models import Blob, Resource, UrlLane, UrlState
from ..storage import takedown
from .dedupe import LaneName

MIRROR_TASK = "resources.mirror"

INTERACTIVE_LANE = "fetch.fast"
INGEST_LANE = "fetch.ingest"
LARGE_LANE = "fetch.large"

FEED_TASK = "resources.feed_mirror"
FEED_QUEUE = "work"
DUE_FIELDS = ("url", "host", "attempts", "blob_digest", "step")

_log = logging.getLogger("tarry.mirroring")


@dataclass(frozen=True, slots=True)
class WantedUrl:
    """A reported URL, with the digest of its canonical URL."""

    url_digest: str
    url: str
    host: str
    referer: str
    wanted_at: datetime


def url_work_key(url_digest: str) -> str:
    """Returns one key for all spellings of the URL, and for all requests for it."""
    return f"mirror:{url_digest}"


def url_content_key(url_digest: str) -> str:
    """Returns the key of the small content that ends the work. The row has the settlement of the URL."""
    return f"resource:{url_digest}"


def mirror_work(url: str, url_digest: str, lane: LaneName = "fast") -> Work:
    """Fetches `url`, as it was reported, and stores it under the digest of its canonical URL.

    Its lane is for waiting clients, its refresh lane for reported URLs.
    """
    return Work(
        key=url_work_key(url_digest),
        kind=f"mirror:{lane}",
        lane=INTERACTIVE_LANE,
        refresh_lane=LARGE_LANE if lane == "large" else INGEST_LANE,
        task=MIRROR_TASK,
        arguments=(url, url_digest),
    )


def want_urls(reports: Sequence[WantedUrl]) -> None:
    """Inserts rows for new URLs, joins existing ones, and has them fed. Raises DatabaseError.

    A row that waits, or that failed because its signature had expired, takes a URL whose signature lasts longer.
    Nothing else changes rows that are stored or have failed.
    """
    lanes = choose_lanes((one.url, one.host) for one in reports)
    rows = {one.url_digest: _build_row(one, lane) for one, lane in zip(reports, lanes, strict=True)}
    ordered = [rows[digest] for digest in sorted(rows)]
    Resource.objects.bulk_create(ordered, ignore_conflicts=True)
    _renew_signatures([row for row in ordered if row.expires_at is not None])
    lookup.note_new_statuses({digest: UrlStatus(UrlState.WANTED) for digest in rows})
    feed_soon()


def _build_row(one: WantedUrl, lane: UrlLane) -> Resource:
    return Resource(
        url_digest=one.url_digest,
        url=one.url,
        host=one.host,
        referer=one.referer,
        lane=lane,
        wanted_at=one.wanted_at,
        due_at=one.wanted_at,
        expires_at=_expiry_moment(url_syntax.find_url_expiry(one.url)),
    )


def _renew_signatures(signed: Sequence[Resource]) -> None:
    """Runs a statement for each row whose signature ends earlier; none for new rows."""
    there: dict[str, datetime | None] = {}
    for some in database.split_portions((row.pk for row in signed), lookup.MAX_QUERY_ROWS):
        there |= dict(_renewable_rows(pk__in=some).values_list("pk", "expires_at"))
    for row in signed:
        before, until = there.get(row.pk), row.expires_at
        if before and until and before < until:
            changed = _renewable_rows(pk=row.pk, expires_at__lt=until).update(
                url=row.url, expires_at=until, state=UrlState.WANTED, due_at=row.due_at, failure="", detail=""
            )
            if changed:
                lookup.forget_statuses([row.pk])


def _renewable_rows(**named: Any) -> QuerySet[Resource]:
    """Returns those of the rows that wait, or whose signature had expired."""
    expired = Q(state=UrlState.FAILED, failure=Failure.EXPIRED.value)
    return Resource.objects.filter(Q(state=UrlState.WANTED) | expired, **named)


def feed_soon() -> None:
    """Has a worker hand over the due rows at once, not at its next turn. Never fails."""
    try:
        current_app.send_task(FEED_TASK, queue=FEED_QUEUE, retry=False, ignore_result=True)
    except (OperationalError, OSError) as error:  # the feeder runs every two seconds anyway
        _log.warning("the feeder is not called", extra={"error": str(error)})


def repair_future_rows(now: datetime) -> None:
    """Makes rows due that a clock ahead of time wrote: they would wait for that hour. Raises DatabaseError."""
    ahead = Resource.objects.filter(state=UrlState.WANTED, wanted_at__gt=now + MAX_CLOCK_LEAD)
    for keys in database.key_portions(ahead):
        database.update_in_order(ahead.filter(pk__in=keys), wanted_at=now, due_at=now)


def due_urls(
    lane: UrlLane, now: datetime, most: int, but_hosts: Iterable[str] = (), *, expiring: bool = False
) -> list[Resource]:
    """Returns the rows to fetch now: those whose signature expires soonest, or the oldest. Raises DatabaseError."""
    rows = Resource.objects.filter(state=UrlState.WANTED, lane=lane, due_at__lte=now).exclude(host__in=list(but_hosts))
    rows = rows.filter(expires_at__gt=now).order_by("expires_at") if expiring else rows.order_by("due_at")
    return list(rows.only(*DUE_FIELDS)[:most])


def ended_urls(url_digests: Sequence[str]) -> list[str]:
    """Returns those of the URLs that are no longer wanted. Raises DatabaseError."""
    found = Resource.objects.exclude(state=UrlState.WANTED).values_list("pk", flat=True)
    portions = database.split_portions(url_digests, lookup.MAX_QUERY_ROWS)
    return [digest for some in portions for digest in found.filter(pk__in=some)]


def check_again_at(url_digests: Sequence[str], at: datetime) -> None:
    """Postpones rows in hand to `at`: if they still wait then, the feeder checks them again. Raises DatabaseError."""
    _change_wanted(url_digests, due_at=at)


def count_attempts(url_digests: Sequence[str]) -> None:
    """Counts one more failed attempt for each. Raises DatabaseError."""
    _change_wanted(url_digests, attempts=F("attempts") + 1)


def postpone_urls(until: dict[str, datetime]) -> None:
    """Makes each row due no earlier than its moment. Raises DatabaseError."""
    for some in database.split_portions(sorted(until)):
        cases = [When(pk=digest, then=Value(until[digest])) for digest in some]
        _change_wanted(some, due_at=Case(*cases, default=F("due_at"), output_field=DateTimeField()))


def _change_wanted(url_digests: Sequence[str], **values: Any) -> None:
    """Changes those of the rows that are wanted, in portions: other writers of the rows wait for each statement."""
    for some in database.split_portions(sorted(url_digests)):
        database.update_in_order(Resource.objects.filter(pk__in=some, state=UrlState.WANTED), **values)


def expired_urls(now: datetime, most: int) -> list[Resource]:
    """Returns rows whose signature expired before the fetch, up to `most` of each lane. Raises DatabaseError."""
    over = Resource.objects.filter(state=UrlState.WANTED, due_at__lte=now, expires_at__lte=now).order_by("expires_at")
    return [row for lane in UrlLane for row in over.filter(lane=lane).only(*DUE_FIELDS)[:most]]


def _expiry_moment(seconds: float | None) -> datetime | None:
    """Converts Unix seconds to a row's moment; None if the calendar has no such date."""
    try:
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return None


def refetch_urls(url_digests: Sequence[str], now: datetime) -> int:
    """Wants the URLs, except those blocked or taken down; returns their number. Raises DatabaseError."""
    blocked = hosts.find_blocked_hosts()
    rows = Resource.objects.filter(url_digest__in=url_digests).exclude(failure=takedown.TAKEN_DOWN_FAILURE)
    chosen = [digest for digest, host in rows.values_list("pk", "host") if not hosts.is_host_blocked(host, blocked)]
    # Content taken down since the first query stays so.
    left = Resource.objects.filter(url_digest__in=chosen).exclude(failure=takedown.TAKEN_DOWN_FAILURE)
    database.update_in_order(left, state=UrlState.WANTED, due_at=now, attempts=0, failure="", detail="", status=None)
    lookup.forget_statuses(chosen)
    feed_soon()
    return len(chosen)


def refetch_held_by(machine: str, now: datetime) -> tuple[int, int]:
    """Wants all content that only this machine holds, which is gone for good. Returns the number of files, and of URLs.

    A second call repeats this for content that is still only there. Raises DatabaseError.
    """
    held = Blob.objects.filter(holder=machine, uploaded_at=None, taken_down_at=None).order_by("stored_at")
    digests = list(held.values_list("digest", flat=True))
    gave = Resource.objects.values_list("url_digest", flat=True)
    urls = (url for some in database.split_portions(digests) for url in gave.filter(blob_digest__in=some))
    return len(digests), sum(refetch_urls(some, now) for some in database.split_portions(urls))
