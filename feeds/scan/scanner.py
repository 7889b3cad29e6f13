"""Runs a scan: takes flagged and due feeds, orders them, hands them over, and waits for none of them.

Rows are the truth. Two scans at once do no harm: a feed is claimed once. Each scan is recorded, with its time
beside the lower bound, and repairs timestamps from the future after the clock was set back.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, Q
from redis.lock import Lock

from resources import locks
from resources.database import MAX_CLOCK_LEAD, write_turn
from resources.disk import room
from resources.fetch import dispatch
from resources.fetch.frontier import explain, queue
from retry import stores

from .. import feed_rows
from ..models import Feed, Scan
from ..pages.work import SCAN_LANE
from ..schedule import simulation
from ..schedule.order import FetchOrder, PlannedFetch, PoolLimits, lower_bound
from . import deliveries, due, handover
from .due import DueFeed
from .handover import HandoverResult

SCAN_LOCK, SCAN_LOCK_SECONDS = "feeds:scanning", 15
FEEDS_PER_TRIP = 200
"""Feeds in one trip. The lock is renewed after each trip."""
ENDING_LOOKS, ENDING_LOOK_SECONDS = 3, 0.2
"""A feed that was flagged while its last fetch was being stored is handed over when that fetch has ended."""
MAX_FEEDS_PER_SCAN = 5000
"""Feeds of one scan: the rest is due at the next one."""
MAX_PASS_SECONDS = 5.0
"""No trip begins later: the queue has other work. Another scan is asked for then."""
MAX_SCAN_AGE = timedelta(days=1)
"""A scan that is still open then ends: its feeds were lost."""
MAX_SCANS_ENDED_PER_PASS = 5
"""Scans ended in one pass: each pass begins one at the most."""
FEEDS_PER_REPAIR = 500
PAST_FIELDS = ("flagged_at", "handed_over_at", "fetch_began_at", "checked_at", "pushed_at")
"""Moments that lie in the past, or a few seconds ahead."""
MAX_BOUNDED_HOSTS = 500

BoundFunction = Callable[[Sequence[PlannedFetch]], float]


def run_scan(now: datetime) -> int:
    """Runs one scan, and returns how many feeds were handed over: 0 while another scan runs.

    Raises StoreUnavailable and DatabaseError.
    """
    with locks.hold_lock(SCAN_LOCK, SCAN_LOCK_SECONDS) as lock:
        if lock is None or room.is_full():  # entries have no room
            return 0
        feed_rows.note_scan_begun()
        repair_future_times(now)
        end_finished_scans(now, bound_fetch_seconds)
        chosen = due.due_feeds(now, min(dispatch.read_lane_room(SCAN_LANE), MAX_FEEDS_PER_SCAN))
        handed_over = _hand_over_line(order_feeds(chosen), lock, now) if chosen else 0
    feed_rows.publish_pending_scan()  # a scan that was asked for meanwhile has met the lock
    return handed_over


def order_feeds(chosen: Sequence[DueFeed]) -> list[tuple[DueFeed, PlannedFetch]]:
    by_key = {one.key: one for one in chosen}
    runs = simulation.replay_pool(due.expected_fetches(chosen), due.fetcher_limits(), FetchOrder.DECISIVE_CHAIN).runs
    return [(by_key[run.fetch.key], run.fetch) for run in runs]


def _hand_over_line(line: Sequence[tuple[DueFeed, PlannedFetch]], lock: Lock, now: datetime) -> int:
    new = [fetch for one, fetch in line if not one.was_in_hand]
    noted = record_scan(new, bound_fetch_seconds(new), now)
    found = _hand_over_in_trips(line, noted, lock, now)
    handed_over, again = found.handed_over, found.again
    for _ in range(ENDING_LOOKS):
        if not found.ending:
            break
        time.sleep(ENDING_LOOK_SECONDS)
        found = _hand_over_in_trips([each for each in line if each[0].pk in found.ending], noted, lock, now)
        handed_over, again = handed_over + found.handed_over, again + found.again
    note_handed_over(noted, handed_over - again)
    return handed_over


def _hand_over_in_trips(
    line: Sequence[tuple[DueFeed, PlannedFetch]], noted: Scan, lock: Lock, now: datetime
) -> HandoverResult:
    """Hands over feeds in trips; counts those handed over, and collects those whose last fetch is about to end."""
    total, until = HandoverResult(), time.monotonic() + MAX_PASS_SECONDS
    for place in range(0, len(line), FEEDS_PER_TRIP):
        if time.monotonic() > until:
            feed_rows.ask_for_scan()
            break
        part = [(one, fetch.seconds) for one, fetch in line[place : place + FEEDS_PER_TRIP]]
        found = handover.hand_over_feeds(part, noted, now)
        total.handed_over += found.handed_over
        total.again += found.again
        total.ending += found.ending
        flagged = {one.pk for one, _ in part if one.is_flagged}
        deliveries.take_all_deliveries([pk for pk in found.postponed if pk in flagged], until)
        if found.full:
            break
        locks.renew_lock(lock)
    return total


def record_scan(fetches: Sequence[PlannedFetch], least_seconds: float, now: datetime) -> Scan:
    """Records a scan that is about to hand over these fetches. Raises DatabaseError."""
    hosts = len({fetch.host for fetch in fetches})
    return Scan.objects.create(started_at=now, feeds=0, hosts=hosts, expected_seconds=least_seconds)


def note_handed_over(scan: Scan, handed_over: int) -> None:
    """Notes how many feeds were really handed over; for none, the scan's row is deleted."""
    if handed_over:
        Scan.objects.filter(pk=scan.pk).update(feeds=handed_over)
    else:
        scan.delete()


def end_finished_scans(now: datetime, least_seconds: BoundFunction) -> None:
    """Notes the end of scans whose feeds have all come back, a few at a time. Raises DatabaseError.

    A scan that has lost feeds for too long is ended without a duration.
    """
    out = Feed.objects.filter(scan=OuterRef("pk"), paused=False, handed_over_at__isnull=False)
    over = Scan.objects.filter(ended_at=None).annotate(is_open=Exists(out)).order_by("started_at")
    given_up = over.filter(is_open=True, started_at__lt=now - MAX_SCAN_AGE).values_list("pk", flat=True)
    Scan.objects.filter(pk__in=list(given_up)).update(ended_at=now)
    for scan in over.filter(is_open=False)[:MAX_SCANS_ENDED_PER_PASS]:
        _end_scan(scan, now, least_seconds)


def _end_scan(scan: Scan, now: datetime, least_seconds: BoundFunction) -> None:
    """Ends a scan by those of its feeds that were really fetched, and not again since."""
    names = ("pk", "host", "last_seconds", "checked_at")
    rows = Feed.objects.filter(scan=scan, checked_at__gte=scan.started_at).values_list(*names)
    fetches = [PlannedFetch(str(pk), host, seconds or 0.0) for pk, host, seconds, _ in rows]
    ended_at = max((checked_at for *_, checked_at in rows if checked_at), default=None)
    fields: dict[str, object] = {"ended_at": ended_at or now}
    if not scan.feeds:
        fields |= _killed_scan_fields(scan, least_seconds)
    if ended_at is not None:
        took = (ended_at - scan.started_at).total_seconds()
        fields |= {"makespan_seconds": took, "bound_seconds": min(took, least_seconds(fetches))}  # limits may change
    Scan.objects.filter(pk=scan.pk).update(**fields)


def _killed_scan_fields(scan: Scan, least_seconds: BoundFunction) -> dict[str, object]:
    """Fields of a killed scan: its feeds so far, without those that another scan has taken since."""
    rows = Feed.objects.filter(scan=scan).values_list("pk", "host", "expected_seconds")
    fetches = [PlannedFetch(str(pk), host, seconds or 0.0) for pk, host, seconds in rows]
    hosts = len({fetch.host for fetch in fetches})
    return {"feeds": len(fetches), "hosts": hosts, "expected_seconds": least_seconds(fetches)}


def prune_scans(before: datetime) -> None:
    """Deletes scans that began before. Raises DatabaseError."""
    Scan.objects.filter(started_at__lt=before).delete()


def repair_future_times(now: datetime) -> int:
    """Moves future moments back to the present, in their order. Returns the number of feeds. Raises DatabaseError."""
    least = now + max(MAX_CLOCK_LEAD, timedelta(seconds=2 * settings.FEEDS_PUSH_COOL_SECONDS))
    flagged_ahead = Feed.objects.filter(paused=False, flagged_at__gt=least)
    if not Scan.objects.filter(started_at__gt=least).exists() and not flagged_ahead.exists():
        return 0
    ahead = Q.create([(f"{name}__gt", least) for name in PAST_FIELDS], Q.OR)
    ids = list(Feed.objects.filter(ahead).order_by("pk").values_list("pk", flat=True))
    for place in range(0, len(ids), FEEDS_PER_REPAIR):
        _repair_part(ids[place : place + FEEDS_PER_REPAIR], now, least)
    Scan.objects.filter(started_at__gt=least).update(started_at=now)  # last: while a scan is ahead there is more
    return len(ids)


def _repair_part(ids: Sequence[int], now: datetime, least: datetime) -> None:
    with write_turn(), transaction.atomic():
        rows = Feed.objects.select_for_update().filter(pk__in=ids).order_by("pk")
        feeds = list(rows.only("next_check_at", *PAST_FIELDS))
        for feed in feeds:
            moments = {name: at for name in PAST_FIELDS if (at := getattr(feed, name)) is not None and at > least}
            if moments:
                by = max(moments.values()) - now
                feed.next_check_at = max(now, feed.next_check_at - by)
                for name, at in moments.items():
                    setattr(feed, name, at - by)
        Feed.objects.bulk_update(feeds, ("next_check_at", *PAST_FIELDS))


def bound_fetch_seconds(fetches: Sequence[PlannedFetch]) -> float:
    """The lower bound with all running fetchers. Raises StoreUnavailable."""
    limits = due.fetcher_limits()
    limits = replace(limits, slots=limits.slots * max(1, stores.run_steps(queue.count_fetchers())))
    return lower_bound(fetches, limits, _host_limits(fetches, limits)).seconds


def _host_limits(fetches: Sequence[PlannedFetch], limits: PoolLimits) -> Mapping[str, PoolLimits]:
    """The limits that the hosts with the most fetches are known to have. A host with one fetch makes no other wait."""
    largest = Counter(fetch.host for fetch in fetches).most_common(MAX_BOUNDED_HOSTS)
    hosts = [host for host, number in largest if number > 1]
    _, records = stores.run_steps(queue.read_domain_records(hosts)) if hosts else (0.0, [])
    found = {}
    for host, record in zip(hosts, records, strict=True):
        allowed = explain.parse_allowance(record, queue.configured_politeness())
        found[host] = replace(limits, in_flight=allowed.in_flight, gap_seconds=allowed.gap_seconds)
    return found
