"""Wanted URLs: the rows that say which URLs to fetch, and when, and the work of fetching one.

A request or a report wants a URL again that failed, after its pause, or whose stored content may have changed. An
admin can have URLs fetched once more at any time. Stored content stays until the origin has something else.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol, cast

from django.db import Error as DatabaseError
from django.db.models import Case, Exists, F, Field, OuterRef, Q, QuerySet, Value, When
from redis.exceptions import RedisError

from resources import database
from resources.database import MAX_CLOCK_LEAD
from resources.fetch.http import url_syntax
from resources.fetch.http.messages import Failure
from retry import lanes as queues
from retry import stores
from retry.errors import QueueUnavailable
from retry.work import Work

from .. import hosts, lookup
from ..hosts import choose_lanes
from ..lookup import UrlStatus
from ..models import BatchItem, Blob, Resource, UrlLane, UrlState
from ..storage import takedown
from . import due_times
from .dedupe import LaneName

MIRROR_TASK = "resources.mirror"

INTERACTIVE_LANE = "fetch.fast"
INGEST_LANE = "fetch.ingest"
LARGE_LANE = "fetch.large"

FEED_TASK = "resources.feed_mirror"
FEED_QUEUE = "work"
FEED_ASKED_KEY, FEED_ASKED_SECONDS = "mirror:feed-asked", 10
"""While the feeder is called, later reports within this time share the call."""

_log = logging.getLogger("tarry.mirroring")


@dataclass(frozen=True, slots=True)
class WantedUrl:
    """A reported or requested URL, with the digest of its canonical URL. Its row has it without a fragment.

    Without a `referer` an existing row keeps its own. `asked_by` is the id of the token that reports it, 0 without one.
    """

    url_digest: str
    url: str
    host: str
    referer: str | None
    wanted_at: datetime
    asked_by: int = 0


def url_work_key(url_digest: str) -> str:
    """Returns one key for all spellings of the URL, and for all requests for it."""
    return f"fetch:mirror:{url_digest}"


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
    """Inserts rows for new URLs, joins existing ones, and has them fed. The reports are of one token.

    A row that waits takes a URL whose signature lasts longer, from its own token, or if its own signature is over. It
    comes in the turn of a token that has none before it. Rows that are stored or have failed stay. Raises
    DatabaseError.
    """
    lanes = choose_lanes((one.url, one.host) for one in reports)
    rows = {one.url_digest: _build_row(one, lane) for one, lane in zip(reports, lanes, strict=True)}
    ordered = [rows[digest] for digest in sorted(rows)]
    Resource.objects.bulk_create(ordered, ignore_conflicts=True)
    own = Q(asked_by__in={one.asked_by for one in reports}) | Q(expires_at__lte=max(one.wanted_at for one in reports))
    _renew_signatures(ordered, Q(own, state=UrlState.WANTED))
    _move_ahead(ordered)
    lookup.note_new_statuses({digest: UrlStatus(UrlState.WANTED) for digest in rows})
    feed_soon()


def _build_row(one: WantedUrl, lane: UrlLane) -> Resource:
    return Resource(
        url_digest=one.url_digest,
        url=url_syntax.cut_fragment(one.url),
        host=one.host,
        referer=one.referer or "",
        lane=lane,
        asked_by=one.asked_by,
        wanted_at=one.wanted_at,
        due_at=one.wanted_at,
        expires_at=find_expiry(one.url),
    )


_REFUSED_STATUSES = (401, 403)


def _wish_again(at: datetime) -> dict[str, Any]:
    """Returns the values of a row that is wanted from that moment on, and that nothing has failed of yet."""
    again = {"wanted_at": at, "due_at": at, "attempts": 0, "failure": "", "detail": "", "status": None}
    return {"state": UrlState.WANTED, **again}


def _renew_signatures(rows: Sequence[Resource], of: Q) -> None:
    """Gives rows a URL whose signature ends later, or any other one if the origin has refused their own.

    A statement for each; none to new rows.
    """
    renewable, there = Resource.objects.filter(of), list[tuple[str, str, datetime | None, int | None]]()
    signed = {row.pk: row for row in rows if row.expires_at is not None and row.expires_at > row.wanted_at}
    for some in database.split_portions(signed, lookup.MAX_QUERY_ROWS):
        there += renewable.filter(pk__in=some).values_list("pk", "url", "expires_at", "status")
    for digest, url, before, status in there:
        row, until = signed[digest], signed[digest].expires_at
        is_later = before is not None and until is not None and before < until
        if row.url != url and (is_later or status in _REFUSED_STATUSES):
            renewable.filter(pk=digest, url=url).update(url=row.url, expires_at=until)


_REFUSED = Q(state=UrlState.FAILED) & (Q(status__in=_REFUSED_STATUSES) | Q(failure=Failure.EXPIRED.value))
_REQUEST_FIELDS = ("url", "referer", "expires_at", "asked_by")


def find_other_requests(urls: Iterable[WantedUrl], now: datetime) -> dict[str, Resource]:
    """Finds those of the URLs whose request was refused, and that may be tried with another signature or Referer.

    The origin refused that request, and may not refuse this one. Returns rows with the new request, by digest. Raises
    DatabaseError.
    """
    valid, found = defaultdict[str, list[WantedUrl]](list), dict[str, Resource]()
    for one in urls:
        if not is_over(one.url, now):
            valid[one.url_digest].append(one)
    for some in database.split_portions(valid, lookup.MAX_QUERY_ROWS):
        rows = Resource.objects.filter(_REFUSED, pk__in=some)
        for row in rows.only(*_REQUEST_FIELDS, "due_at", "fetched_at", "rounds"):
            others = [new for one in valid[row.pk] if (new := _other_request(row, one))]
            if others and _may_differ(row, others[0], now):
                found[row.pk] = others[0]
    return found


def _other_request(row: Resource, one: WantedUrl) -> Resource | None:
    """Returns the row with the new request; None if it is the same."""
    new = _build_row(one, UrlLane.FAST)
    new.referer = row.referer if one.referer is None else new.referer
    return new if (new.url, new.referer) != (row.url, row.referer) else None


def _may_differ(row: Resource, new: Resource, now: datetime) -> bool:
    """Tells whether the time has come for another request: at once if the row's signature was over before its end.

    Else after a pause. Another token waits half as long: a token whose requests are refused keeps no others away.
    """
    if row.fetched_at is None or (row.expires_at is not None and row.expires_at <= row.fetched_at):
        return True
    if row.due_at is not None and due_times.is_past(row.due_at, now):
        return True
    pause = due_times.other_request_pause(row.rounds) / (1 if new.asked_by == row.asked_by else 2)
    return not now - pause < row.fetched_at <= now + MAX_CLOCK_LEAD


def want_refused_urls(urls: Iterable[WantedUrl], now: datetime) -> set[str]:
    """Wants the URLs of find_other_requests again; returns their digests. Raises DatabaseError."""
    found = find_other_requests(urls, now)
    for some in database.split_portions(sorted(found)):
        rows = {digest: found[digest] for digest in some}
        with lookup.forget_around_change(some):
            request = {name: by_row(rows, name) for name in _REQUEST_FIELDS}
            database.update_in_order(Resource.objects.filter(_REFUSED, pk__in=some), **_wish_again(now), **request)
    return set(found)


def by_row(rows: Mapping[str, Resource], name: str) -> Case:
    """Returns the value of each row in one statement for all of them."""
    cases = [When(pk=digest, then=Value(getattr(row, name))) for digest, row in rows.items()]
    return Case(*cases, default=F(name), output_field=cast("Field[Any, Any]", Resource._meta.get_field(name)))


def _move_ahead(rows: Sequence[Resource]) -> None:
    """Has waiting rows fetched in the turns of those who ask for them now, where they are the oldest ones there."""
    for lane, asker in {(row.lane, row.asked_by) for row in rows}:
        of_lane = Resource.objects.filter(state=UrlState.WANTED, lane=lane)
        first = of_lane.filter(asked_by=asker).order_by("due_at").values_list("due_at", flat=True).first()
        of_others = of_lane.exclude(asked_by=asker).filter(Q(due_at__lt=first) if first else Q())
        asked = (row.pk for row in rows if (row.lane, row.asked_by) == (lane, asker))
        for some in database.split_portions(asked, lookup.MAX_QUERY_ROWS):
            if found := list(of_others.filter(pk__in=some).values_list("pk", flat=True)):
                database.update_in_order(of_others.filter(pk__in=found), asked_by=asker)


class UrlStanding(Protocol):
    """The state of a URL, as a look-up or its row gives it. `expires_at` is of stored content."""

    @property
    def state(self) -> str: ...
    @property
    def due_at(self) -> datetime | None: ...
    @property
    def expires_at(self) -> datetime | None: ...


def is_due(known: UrlStanding, url: str, host: str, now: datetime) -> bool:
    """Tells whether a request has the URL fetched again: it failed long ago, or its content may have changed.

    Stored content without a time was never checked. It stays if neither its own signature nor that of `url` holds.
    Raises DatabaseError.
    """
    if known.state == UrlState.FAILED:
        return known.due_at is not None and due_times.is_past(known.due_at, now)
    is_old = known.state == UrlState.STORED and (known.due_at is None or due_times.is_past(known.due_at, now))
    has_ended = known.expires_at is not None and known.expires_at <= now
    is_renewed = find_expiry(url) is not None and not is_over(url, now)
    return is_old and (is_renewed or not has_ended) and hosts.is_rechecked(host)


def is_over(url: str, now: datetime) -> bool:
    """Tells whether the URL has a signature that has ended."""
    until = find_expiry(url)
    return until is not None and until <= now


def past_due(now: datetime) -> Q:
    """The condition of due_times.is_past for rows."""
    return Q(due_at__lte=now) | Q(due_at__gt=now + due_times.LATEST_DUE)


def want_due_urls(urls: Sequence[WantedUrl], now: datetime) -> int:
    """Wants those of these due URLs whose rows are due; returns their number. Raises DatabaseError.

    Their rows take the Referer, and a URL whose signature lasts longer: stored content only if its own is over, or was
    refused. Stored content whose signature is over stays.
    The statement itself compares the time: of several requests at once one wins, and the others find the URL wanted.
    """
    of_stored = Q(past_due(now) | Q(due_at=None), state=UrlState.STORED)
    spent = of_stored & (Q(expires_at__lte=now) | Q(status__in=_REFUSED_STATUSES))
    failed = Q(past_due(now), state=UrlState.FAILED)
    _renew_signatures([_build_row(one, UrlLane.FAST) for one in urls], spent | failed)
    due = failed | of_stored & (Q(expires_at__gt=now) | Q(expires_at=None))
    number = 0
    for referer, asker in {(one.referer, one.asked_by) for one in urls}:
        again = {**_wish_again(now), "asked_by": asker} | ({} if referer is None else {"referer": referer})
        asked = (one.url_digest for one in urls if (one.referer, one.asked_by) == (referer, asker))
        for some in database.split_portions(sorted(asked)):
            with lookup.forget_around_change(some):
                number += database.update_in_order(Resource.objects.filter(due, pk__in=some), **again)
    return number


def renew_status(asked: WantedUrl, known: UrlStatus | None, now: datetime) -> UrlStatus | None:
    """Returns the status of a requested URL, which is wanted again if it was due, or refused with another signature.

    While the database takes no writes the status stays: stored content is served. Raises DatabaseError if the choices
    of admins have to be read and cannot be.
    """
    if known is None or not ((due := is_due(known, asked.url, asked.host, now)) or is_refused(known)):
        return known
    try:
        is_other = is_refused(known) and bool(want_refused_urls([asked], now))
        if not (is_other or due):
            return known
        if due:
            want_due_urls([asked], now)
        row = Resource.objects.filter(pk=asked.url_digest).first()  # a look-up would remember it as wanted
    except DatabaseError as error:
        _log.warning("a URL is not wanted again", extra={"digest": asked.url_digest, "error": str(error)})
        return known
    return UrlStatus.of(row) if row else None


def is_refused(known: UrlStatus) -> bool:
    """Tells whether a request with another signature or Referer may have the URL fetched."""
    is_failure = known.status in _REFUSED_STATUSES or known.failure == Failure.EXPIRED.value
    return known.state is UrlState.FAILED and is_failure


def find_retry_times(url_digests: Iterable[str]) -> dict[str, datetime]:
    """Returns from when on a report has failed URLs tried again, by digest. Raises DatabaseError."""
    failed = Resource.objects.filter(state=UrlState.FAILED, due_at__isnull=False).values_list("pk", "due_at")
    portions = database.split_portions(url_digests, lookup.MAX_QUERY_ROWS)
    return {digest: at for some in portions for digest, at in failed.filter(pk__in=some) if at is not None}


def feed_soon() -> None:
    """Has a worker hand over the due rows at once, not at its next turn. Never fails."""
    try:
        if stores.fast_client("state").set(FEED_ASKED_KEY, 1, nx=True, ex=FEED_ASKED_SECONDS):
            queues.send_task(FEED_TASK, (), FEED_QUEUE)
    except (RedisError, QueueUnavailable, OSError) as error:  # the feeder runs every two seconds anyway
        _log.warning("the feeder is not called", extra={"error": str(error)})


def ended_urls(url_digests: Sequence[str]) -> list[str]:
    """Returns those of the URLs that are no longer wanted. Raises DatabaseError."""
    found = Resource.objects.exclude(state=UrlState.WANTED).values_list("pk", flat=True)
    portions = database.split_portions(url_digests, lookup.MAX_QUERY_ROWS)
    return [digest for some in portions for digest in found.filter(pk__in=some)]


def find_old_failures(before: datetime) -> QuerySet[Resource]:
    """Finds the URLs that failed before then, except those blocked or taken down, and those that a list waits for.

    Without its row a URL is as if it had never been reported.
    """
    awaited = BatchItem.objects.filter(url_digest=OuterRef("pk"), step="")
    failed = Resource.objects.filter(state=UrlState.FAILED, fetched_at__lt=before)
    lasting = (hosts.BLOCKED_FAILURE, takedown.TAKEN_DOWN_FAILURE)
    return failed.exclude(failure__in=lasting).filter(~Exists(awaited))


def remove_failures(rows: QuerySet[Resource], url_digests: Sequence[str]) -> int:
    """Removes those of the rows; returns their number. Raises DatabaseError."""
    with lookup.forget_around_change(url_digests):
        return database.delete_in_order(rows.filter(pk__in=url_digests))


def find_expiry(url: str) -> datetime | None:
    """Returns when the URL's signature ends; None without one, or if the calendar has no such date."""
    seconds = url_syntax.find_url_expiry(url)
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
    database.update_in_order(left, rounds=0, **_wish_again(now))
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
