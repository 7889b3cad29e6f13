"""The feeder: hands what is wanted over to the fetchers, as far as their lanes have room.

Rows that wait are the truth. A claim of the deferral protocol is the mark that a URL is in flight, and whoever dies
between the steps leaves a claim that the sweeper publishes, or a row that is due again.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import cast

from resources import locks
from resources.fetching import publishing
from resources.fetching.outcomes import Failure
from resources.fetching.publishing import Order
from resources.fetching.queues.jobs import Enqueued, Full, Joined
from retry import claims, connections, standings
from retry.conf import conf as retry_conf
from retry.scripts import Call, Reply
from retry.standings import Begun, Claimed, Promoted, Standing

from .. import conf
from ..knowing.found import Lost, Source
from ..knowing.models import Lane, State, Step
from ..writing import flushing, wanting
from ..writing.wanting import Due
from .work import INGEST, LARGE, mirror_work, work_key

AT_ONCE = 200
"""Rows in one trip. After each the feeder knows which hosts have enough to do."""
PASS_SECONDS = 3.0
"""A pass ends after so long. The next one goes on."""
LOCK, LOCK_SECONDS = "mirror:feeding", 10
LATER = "mirror:later"
"""Hosts that have enough to do, until a moment (Unix seconds)."""
AHEAD_SECONDS = 60.0
"""A host whose queue is as long gets nothing more for half of that time: the lanes are for all hosts."""
MOST_LATER_SECONDS = 600.0
MOST_HOSTS = 500
IN_HAND_SECONDS = 120.0
"""When a row that was handed over is looked at again: its claim may have been lost with Redis' data."""
MOST_EXPIRED = 500

LANES = {Lane.FAST: INGEST, Lane.LARGE: LARGE}
BUSY = 503
"""Failure records of this status are nobody's failed attempt: the origin asked to wait, or we have troubles."""


@dataclass(slots=True)
class _Tray:
    """What becomes of some rows that are due."""

    in_hand: list[str] = field(default_factory=list)
    postponed: dict[str, datetime] = field(default_factory=dict)
    attempted: list[str] = field(default_factory=list)
    given_up: list[Lost] = field(default_factory=list)
    later: dict[str, float] = field(default_factory=dict)
    full: bool = False


def feed(now: datetime) -> int:
    """One pass: how many URLs were handed over. Does nothing while another one is at it. Raises StoreUnavailable and
    DatabaseError.
    """
    with locks.held(LOCK, LOCK_SECONDS) as lock:
        if lock is None:
            return 0
        until = time.monotonic() + PASS_SECONDS
        wanting.set_right(now)
        _fail_expired(now)
        return sum(_feed_lane(lane, now, until) for lane in LANES)


def _feed_lane(lane: Lane, now: datetime, until: float) -> int:
    fed, expiring = 0, True
    room = _room(LANES[lane])
    while room > 0 and time.monotonic() < until:
        rows = wanting.due(lane, now, min(room, AT_ONCE), _busy_hosts(), expiring=expiring)
        if rows:
            tray, number = _hand_over(rows, lane, now)
            _write(tray, now)
            fed += number
            room -= number
            if tray.full:
                break
        elif not expiring:
            break
        expiring = expiring and len(rows) == AT_ONCE
    return fed


def _hand_over(rows: Sequence[Due], lane: Lane, now: datetime) -> tuple[_Tray, int]:
    """Claims and publishes, each in one trip. What becomes of the rows, and how many were handed over."""
    works = [mirror_work(row.url, row.url_digest, "large" if lane is Lane.LARGE else "fast") for row in rows]
    found = _ask([claims.beginning(work, refresh=True) for work in works])
    stand = [standings.standing(reply) for reply in found]
    tray = _Tray()
    begun = [(row, work, one) for row, work, one in zip(rows, works, stand, strict=True) if isinstance(one, Begun)]
    orders = [Order(work.task, work.key, one.token, work.arguments, LANES[lane]) for _, work, one in begun]
    taken = dict(zip((row.url_digest for row, _, _ in begun), publishing.publish_all(orders), strict=True))
    abandoned: list[Call] = []
    for row, one in zip(rows, stand, strict=True):
        if isinstance(one, Begun) and not _is_taken(row, taken[row.url_digest], tray, now):
            abandoned.append(claims.abandoning(work_key(row.url_digest), one.token))
        elif not isinstance(one, Begun):
            _stands(row, one, tray, now)
    _ask(abandoned)
    return tray, len(begun) - len(abandoned)


def _is_taken(row: Due, found: Enqueued | Joined | Full | None, tray: _Tray, now: datetime) -> bool:
    if found is None:
        tray.given_up.append(_lost(row, Failure.REFUSED.value, "not a URL that can be asked for", now))
        return False
    if isinstance(found, Full) or publishing.is_left_alone(found):
        wait = found.wait_seconds if isinstance(found, Full) else found.closed_seconds
        tray.later[row.host] = wait
        tray.postponed[row.url_digest] = now + timedelta(seconds=min(max(wait, 1.0), MOST_LATER_SECONDS))
        return False
    if found.wait_seconds > AHEAD_SECONDS:
        tray.later[row.host] = found.wait_seconds / 2
    tray.in_hand.append(row.url_digest)
    return True


def _stands(row: Due, one: Standing, tray: _Tray, now: datetime) -> None:
    """A row whose work was not begun just now."""
    match one:
        case standings.Full():
            tray.full = True
        case standings.Failed(status, detail, wait_seconds) if status != BUSY and row.attempts + 1 >= conf.attempts():
            tray.given_up.append(_lost(row, Failure.TRANSIENT.value, detail, now))
        case standings.Failed(status, _, wait_seconds):  # a fetcher told those who wait, and left the row alone
            tray.postponed[row.url_digest] = now + timedelta(seconds=wait_seconds + 1)
            tray.attempted += [row.url_digest] if status != BUSY else []
        case Claimed() | Promoted():
            tray.in_hand.append(row.url_digest)
        case _:  # it has ended just now
            tray.postponed[row.url_digest] = now + timedelta(seconds=1)


def _write(tray: _Tray, now: datetime) -> None:
    """What is in hand last: until then it is due, and would be found in hand again."""
    if tray.given_up:
        flushing.flush(tray.given_up, now)
    if tray.attempted:
        wanting.count_attempts(tray.attempted)
    if tray.postponed:
        wanting.postpone(tray.postponed)
    if tray.in_hand:
        wanting.look_again_at(tray.in_hand, now + timedelta(seconds=IN_HAND_SECONDS))
    _leave_alone(tray.later, now)


def _fail_expired(now: datetime) -> None:
    """Signatures that have run out: no request can succeed."""
    rows = wanting.expired(now, MOST_EXPIRED)
    if rows:
        detail = "the signature in its address had run out before its turn came"
        flushing.flush([_lost(row, Failure.EXPIRED.value, detail, now) for row in rows], now)


def _lost(row: Due, failure: str, detail: str, now: datetime) -> Lost:
    source = Source(row.url_digest, row.url, row.host)
    if row.blob_digest:  # what was stored before stays
        return Lost(source, State.STORED, now, failure, detail, blob_digest=row.blob_digest, step=row.step)
    return Lost(source, State.FAILED, now, failure, detail, attempts=row.attempts + 1, step=Step.FAILED)


def _ask(calls: Sequence[Call]) -> list[Reply]:
    return connections.execute_all_patiently("state", calls) if calls else []


def _room(lane: str) -> int:
    """How many more URLs the lane takes."""
    with locks.state() as client:
        return retry_conf().RETRY_LANES[lane]["limit"] - client.zcard(claims.queued_name(lane))


def _busy_hosts() -> list[str]:
    """What is left alone for longer than anything is was noted by a clock that was ahead."""
    now = time.time()
    with locks.state() as client:
        most = now + MOST_LATER_SECONDS
        found = cast(list[bytes], client.zrevrangebyscore(LATER, most, now, start=0, num=MOST_HOSTS))
    return [host.decode() for host in found]


def _leave_alone(later: dict[str, float], now: datetime) -> None:
    if later:
        with locks.state() as client:
            moments = {host: time.time() + min(seconds, MOST_LATER_SECONDS) for host, seconds in later.items()}
            client.zadd(LATER, moments)
            client.zremrangebyscore(LATER, "-inf", time.time())
            client.expire(LATER, int(2 * MOST_LATER_SECONDS))
