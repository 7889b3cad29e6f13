"""The feeder: hands wanted URLs to the fetchers, as far as their lanes have room.

The waiting rows are the truth. A claim of the deferral protocol is the in-flight mark of a URL. A process that dies
between the steps leaves a claim that the sweeper publishes, or a row that becomes due again.
"""

import math
import random
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import zip_longest
from typing import Any, cast

from django.conf import settings
from django.db.models import F, Q, QuerySet

from resources import database, locks
from resources.database import MAX_CLOCK_LEAD
from resources.disk import room
from resources.fetch import dispatch
from resources.fetch.dispatch import EnqueueOutcome, OriginBusy, QueuedWork, UrlRefused, WorkEnqueued, WorkInHand
from resources.fetch.http.messages import Failure
from retry.claim_state import LaneFull, WorkDone, WorkFailed

from ..models import Resource, UrlLane, UrlState
from . import due_times, url_outcome, wanted_urls, writer
from .dedupe import LaneName
from .url_outcome import NothingFound, SourceUrl
from .wanted_urls import INGEST_LANE, LARGE_LANE, mirror_work

ROWS_PER_TRIP = 200
"""Rows in one trip. After each the feeder knows the hosts with enough work."""
PASS_SECONDS = 3.0
"""Time limit of a pass. The next one continues."""
FEED_LOCK, FEED_LOCK_SECONDS = "mirror:feeding", 10
LATER_HOSTS_KEY = "mirror:later"
"""The Redis set of hosts with enough work, each until a moment (Unix seconds)."""
LONG_QUEUE_SECONDS = 60.0
"""A host with so long a queue gets no more URLs for half of that time: the lanes are for all hosts."""
MAX_LATER_SECONDS = 600.0
MAX_LATER_HOSTS = 500
"""Those that wait longest. URLs of further hosts are handed over, and refused, row by row."""
IN_HAND_SECONDS = 120.0
"""Pause before a handed-over row is checked again: its claim may have been lost with Redis' data."""
MAX_EXPIRED_ROWS, LEAST_EXPIRED_ROWS = 500, 50
"""Rows that fail in a pass, and those of one token that are looked at however many tokens there are."""

DUE_FIELDS = ("url", "host", "wanted_at", "attempts", "rounds", "blob_digest", "step")
Askers = Mapping[UrlLane, list[int]]
"""The tokens with waiting rows, by lane."""

LANE_QUEUES = {UrlLane.FAST: INGEST_LANE, UrlLane.LARGE: LARGE_LANE}
BUSY_STATUS = 503
"""Failure records of this status count as no attempt: the origin asked to wait, or the trouble is ours."""


@dataclass(slots=True)
class _HandoverResult:
    handed_over: int = 0
    in_hand: list[str] = field(default_factory=list)
    postponed: dict[str, datetime] = field(default_factory=dict)
    attempted: list[str] = field(default_factory=list)
    given_up: list[NothingFound] = field(default_factory=list)
    later: dict[str, float] = field(default_factory=dict)
    full: bool = False


def feed_fetchers(now: datetime) -> int:
    """Runs one pass and returns how many URLs were handed over.

    Does nothing while another process runs one, or while the disk has no room. Raises StoreUnavailable and
    DatabaseError.
    """
    with locks.open_state() as client:
        client.delete(wanted_urls.FEED_ASKED_KEY)  # before rows are read: a report from now on calls anew
    with locks.hold_lock(FEED_LOCK, FEED_LOCK_SECONDS) as lock:
        if lock is None or room.is_tight():  # what has no room is not fetched
            return 0
        until = time.monotonic() + PASS_SECONDS
        askers = {lane: list(_find_askers(lane)) for lane in LANE_QUEUES}
        _repair_future_rows(now, askers)
        _fail_expired(now, askers)
        return sum(_feed_lane(lane, now, until, askers[lane]) for lane in LANE_QUEUES)


def _feed_lane(lane: UrlLane, now: datetime, until: float, askers: list[int]) -> int:
    fed, is_full = 0, False
    room = dispatch.read_lane_room(LANE_QUEUES[lane])
    while room > 0 and not is_full and time.monotonic() < until:
        rows = due_urls(lane, now, min(room, ROWS_PER_TRIP), _busy_hosts(), askers)
        if not rows:
            break
        result = _hand_over(rows, lane, now)
        _write_result(result, now)
        fed += result.handed_over
        room -= result.handed_over
        is_full = result.full
    return fed


def _hand_over(rows: Sequence[Resource], lane: UrlLane, now: datetime) -> _HandoverResult:
    """Claims and enqueues rows, each in one trip."""
    by_digest = {row.url_digest: row for row in rows}
    size: LaneName = "large" if lane is UrlLane.LARGE else "fast"
    wanted = {digest: QueuedWork(mirror_work(row.url, digest, size)) for digest, row in by_digest.items()}
    result = _HandoverResult()
    for digest, outcome in dispatch.claim_and_enqueue(wanted, refresh=True).items():
        _note_outcome(result, by_digest[digest], outcome, now)
    return result


def _note_outcome(result: _HandoverResult, row: Resource, outcome: EnqueueOutcome, now: datetime) -> None:
    if given_up := _give_up_row(row, outcome, now):
        result.given_up.append(given_up)
        return
    match outcome:
        case WorkEnqueued(wait_seconds):
            result.handed_over += 1
            result.in_hand.append(row.url_digest)
            if wait_seconds > LONG_QUEUE_SECONDS:
                result.later[row.host] = wait_seconds / 2
        case WorkInHand():
            result.in_hand.append(row.url_digest)
        case OriginBusy(wait_seconds):
            result.later[row.host] = wait_seconds
            result.postponed[row.url_digest] = now + timedelta(seconds=min(max(wait_seconds, 1.0), MAX_LATER_SECONDS))
        case LaneFull():
            result.full = True
        case WorkFailed(status, _, wait_seconds):  # a fetcher wrote the failure record, and not the row
            result.postponed[row.url_digest] = now + timedelta(seconds=wait_seconds + 1)
            result.attempted += [row.url_digest] if status != BUSY_STATUS else []
        case WorkDone():
            result.postponed[row.url_digest] = now + timedelta(seconds=1)


def _give_up_row(row: Resource, outcome: EnqueueOutcome, now: datetime) -> NothingFound | None:
    """Returns the end of the URL's round, or None: it waits on."""
    patience_over = row.wanted_at < now - timedelta(days=settings.MIRROR_FAILED_DAYS)
    match outcome:
        case UrlRefused():
            return _nothing_found(row, Failure.REFUSED.value, "not a URL that can be asked for", now)
        case WorkFailed(status, detail, _) if status != BUSY_STATUS:
            is_last = row.attempts + 1 >= settings.MIRROR_ATTEMPTS
            return _nothing_found(row, Failure.TRANSIENT.value, detail, now) if is_last else None
        case OriginBusy(is_resting=True) | WorkFailed() if patience_over:  # a list waits for the URL's end
            detail = f"its server asked to wait for {settings.MIRROR_FAILED_DAYS} days"
            return _nothing_found(row, Failure.THROTTLED.value, detail, now)
    return None


def _write_result(result: _HandoverResult, now: datetime) -> None:
    """Writes the results, rows in hand last: until then they are due, and would be found in hand again."""
    if result.given_up:
        writer.flush_outcomes(result.given_up, now)
    if result.attempted:
        _count_attempts(result.attempted)
    if result.postponed:
        _postpone_urls(result.postponed)
    if result.in_hand:
        check_again_at(result.in_hand, now + timedelta(seconds=IN_HAND_SECONDS))
    _postpone_hosts(result.later, now)


def _fail_expired(now: datetime, askers: Askers) -> None:
    """Fails URLs whose signature has expired: no request can succeed."""
    rows = expired_urls(now, MAX_EXPIRED_ROWS, askers)
    if rows:
        detail = "the signature in its address had run out before its turn came"
        writer.flush_outcomes([_nothing_found(row, Failure.EXPIRED.value, detail, now) for row in rows], now)


def _nothing_found(row: Resource, failure: str, detail: str, now: datetime) -> NothingFound:
    return url_outcome.give_up_outcome(SourceUrl(row.url_digest, row.url, row.host), row, failure, detail, now)


def _busy_hosts() -> list[str]:
    """Returns the hosts with enough work. Ignores moments beyond the limit: a clock that was ahead wrote them."""
    now = time.time()
    with locks.open_state() as client:
        most = now + MAX_LATER_SECONDS
        found = cast(list[bytes], client.zrevrangebyscore(LATER_HOSTS_KEY, most, now, start=0, num=MAX_LATER_HOSTS))
    return [host.decode() for host in found]


def _postpone_hosts(later: dict[str, float], now: datetime) -> None:
    if later:
        with locks.open_state() as client:
            moments = {host: time.time() + min(seconds, MAX_LATER_SECONDS) for host, seconds in later.items()}
            client.zadd(LATER_HOSTS_KEY, moments)
            client.zremrangebyscore(LATER_HOSTS_KEY, "-inf", time.time())
            client.zremrangebyrank(LATER_HOSTS_KEY, 0, -MAX_LATER_HOSTS - 1)
            client.expire(LATER_HOSTS_KEY, int(2 * MAX_LATER_SECONDS))


def due_urls(lane: UrlLane, now: datetime, most: int, but_hosts: Iterable[str], askers: list[int]) -> list[Resource]:
    """Returns the rows to fetch now: as many of each token, in turns. Raises DatabaseError.

    Half of a token's turns are for those whose signature expires soonest, half for the oldest. Tokens with nothing to
    fetch are taken out of `askers`.
    """
    due = Resource.objects.filter(state=UrlState.WANTED, lane=lane, due_at__lte=now).exclude(host__in=list(but_hosts))
    random.shuffle(askers)
    each, turns = math.ceil(most / max(1, len(askers))), list[list[Resource]]()
    for asker in list(askers):
        if rows := _first_of(due.filter(asked_by=asker), now, each):
            turns.append(rows)
        else:
            askers.remove(asker)
        if len(turns) == most:
            break
    return _in_turns(turns, most)


def _in_turns(turns: Iterable[Sequence[Resource]], most: int) -> list[Resource]:
    """Returns the first row of each, then the second of each, and so on; each row once."""
    rows = {row.pk: row for turn in zip_longest(*turns) for row in turn if row}
    return list(rows.values())[:most]


def _first_of(due: QuerySet[Resource], now: datetime, most: int) -> list[Resource]:
    valid = due.only(*DUE_FIELDS).filter(Q(expires_at__gt=now) | Q(expires_at=None))
    expiring = list(due.only(*DUE_FIELDS).filter(expires_at__gt=now).order_by("expires_at")[:most])
    return _in_turns([expiring, list(valid.order_by("due_at")[:most])], most)


def _find_askers(lane: UrlLane) -> Iterator[int]:
    """Yields the tokens with rows that wait in the lane, by a look into the index for each."""
    waiting = Resource.objects.filter(state=UrlState.WANTED, lane=lane).order_by("asked_by")
    askers = waiting.values_list("asked_by", flat=True)
    asker = askers.first()
    while asker is not None:
        yield asker
        asker = askers.filter(asked_by__gt=asker).first()


def _repair_future_rows(now: datetime, askers: Askers) -> None:
    """Makes rows due that a clock ahead of time wrote: they would wait for that hour. Raises DatabaseError."""
    late = (rows.filter(due_at__gt=now + due_times.LATEST_TURN) for rows in _waiting_rows(askers))
    for ahead in (Resource.objects.filter(state=UrlState.WANTED, wanted_at__gt=now + MAX_CLOCK_LEAD), *late):
        for keys in database.key_portions(ahead):
            database.update_in_order(ahead.filter(pk__in=keys), wanted_at=now, due_at=now)


def _waiting_rows(askers: Askers) -> Iterator[QuerySet[Resource]]:
    waiting = Resource.objects.filter(state=UrlState.WANTED)
    return (waiting.filter(lane=lane, asked_by=asker) for lane, of_lane in askers.items() for asker in of_lane)


def expired_urls(now: datetime, most: int, askers: Askers) -> list[Resource]:
    """Returns rows whose signature expired before the fetch, up to `most`, as many of each token.

    Raises DatabaseError.
    """
    over = (rows.filter(due_at__lte=now, expires_at__lte=now).order_by("expires_at") for rows in _waiting_rows(askers))
    each = max(LEAST_EXPIRED_ROWS, math.ceil(most / max(1, sum(map(len, askers.values())))))
    return _in_turns([list(rows.only(*DUE_FIELDS)[:each]) for rows in over], most)


def check_again_at(url_digests: Sequence[str], at: datetime) -> None:
    """Postpones rows in hand to `at`: if they still wait then, the feeder checks them again. Raises DatabaseError."""
    _change_wanted(url_digests, due_at=at)


def _count_attempts(url_digests: Sequence[str]) -> None:
    """Counts one more failed attempt for each. Raises DatabaseError."""
    _change_wanted(url_digests, attempts=F("attempts") + 1)


def _postpone_urls(until: dict[str, datetime]) -> None:
    """Makes each row due no earlier than its moment. Raises DatabaseError."""
    for some in database.split_portions(sorted(until)):
        _change_wanted(
            some, due_at=wanted_urls.by_row({digest: Resource(due_at=until[digest]) for digest in some}, "due_at")
        )


def _change_wanted(url_digests: Sequence[str], **values: Any) -> None:
    """Changes those of the rows that are wanted, in portions: other writers of the rows wait for each statement."""
    for some in database.split_portions(sorted(url_digests)):
        database.update_in_order(Resource.objects.filter(pk__in=some, state=UrlState.WANTED), **values)
