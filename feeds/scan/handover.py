"""Hands feeds over to the fetchers, in the order in which they should be fetched, or postpones them.

First the claim, then the row, then the job. A process that dies between the steps leaves a claim that the sweeper
publishes, or a row that is looked at again. Feeds that cannot be fetched now are postponed without a request.
"""

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

from django.db import transaction
from django.db.models import Case, F, When

from resources import humanize
from resources.fetch import dispatch
from resources.fetch.dispatch import EnqueueOutcome, OriginBusy, QueuedWork, UrlRefused, WorkEnqueued, WorkInHand
from resources.fetch.frontier.jobs import JobPriority
from resources.fetch.http.messages import Failure, FetchFailed, OutcomeTiming
from retry.claim_state import LaneFull, WorkFailed

from .. import feed_rows, versions
from ..models import Feed, Scan
from ..pages.work import scan_work
from ..schedule import next_check
from ..schedule.state import trouble_of
from .due import DueFeed

MIN_POSTPONED, MAX_POSTPONED = timedelta(seconds=1), timedelta(hours=1)
"""The time by which a feed is postponed whose host rests. People can have a host asked again before."""
MAX_SCAN_DURATION = timedelta(minutes=5)
BUSY_STATUS = 503
"""Failure records of this status say nothing of the server: no request was sent."""


@dataclass(slots=True)
class HandoverResult:
    handed_over: int = 0
    """Number of feeds newly on their way; `again` counts those among them that had been lost."""
    again: int = 0
    postponed: list[int] = field(default_factory=list)
    """Feeds that are fetched later: their host rests, or their last fetch failed."""
    ending: list[int] = field(default_factory=list)
    """Feeds whose last fetch has just been stored and is about to end: they can be handed over in a moment."""
    full: bool = False


def hand_over_feeds(chosen: Sequence[tuple[DueFeed, float]], scan: Scan | None, now: datetime) -> HandoverResult:
    """Claims and enqueues feeds with their expected seconds, in this order. Raises StoreUnavailable, DatabaseError.

    `now` is from before the feeds were chosen: those that were stored since are not fetched again.
    """
    feeds = {one.pk: one for one, _ in chosen}
    wanted = {one.pk: _make_queued_work(one, seconds) for one, seconds in chosen}
    mark_rows = partial(_mark_rows, feeds, scan, now)
    result = HandoverResult()
    for pk, outcome in dispatch.claim_and_enqueue(wanted, refresh=True, write_rows=mark_rows).items():
        _note_outcome(result, feeds[pk], outcome, now)
    return result


def _make_queued_work(one: DueFeed, seconds: float) -> QueuedWork:
    work = scan_work(one.pk, one.url)
    priority = JobPriority.FLAGGED if one.is_flagged else None
    return QueuedWork(work, seconds, priority, moves_up=one.is_flagged and one.was_in_hand)


def _mark_rows(
    feeds: Mapping[int, DueFeed], scan: Scan | None, now: datetime, begun: Collection[int], in_hand: Collection[int]
) -> Collection[int]:
    """Marks feeds as handed over, unless they have come back meanwhile. Returns those that were stored meanwhile.

    A row is written before its claim ends: so a feed with a new claim was not stored since, or its row says so. A lost
    feed still belongs to the scan that took it first.
    """
    waiting = [pk for pk in in_hand if feeds[pk].was_in_hand]
    if not begun and not waiting:
        return ()
    with transaction.atomic():
        versions.lock_rows(Feed.objects.filter(pk__in=[*begun, *waiting]))
        rows = Feed.objects.filter(pk__in=begun)
        # A row that was stored much later than now was stored before the clock was set back.
        done = set(rows.filter(checked_at__range=(now, now + MAX_SCAN_DURATION)).values_list("pk", flat=True))
        again = {pk for pk in begun if feeds[pk].was_in_hand}
        rows.filter(pk__in=again - done).update(handed_over_at=now)
        rows.exclude(pk__in=again | done).update(handed_over_at=now, scan=scan)
        Feed.objects.filter(pk__in=waiting, handed_over_at__lt=now).update(handed_over_at=now)
    return done


def _note_outcome(result: HandoverResult, one: DueFeed, outcome: EnqueueOutcome, now: datetime) -> None:
    """Counts a feed, and postpones one that cannot be fetched now. Raises DatabaseError."""
    match outcome:
        case WorkEnqueued():
            result.handed_over += 1
            result.again += one.was_in_hand
        case WorkInHand() if not one.was_in_hand:
            result.ending.append(one.pk)
        case LaneFull():
            result.full = True
        case OriginBusy(wait_seconds):
            postpone_feed(one.pk, max(timedelta(seconds=wait_seconds), MIN_POSTPONED), now)
            result.postponed.append(one.pk)
        case WorkFailed(status, detail, wait_seconds):  # it failed while no fetcher waited
            failure = Failure.POSTPONED if status == BUSY_STATUS else Failure.TRANSIENT
            _decide_after_failure(one.pk, failure, detail, wait_seconds, now)
            result.postponed.append(one.pk)
        case UrlRefused():
            _decide_after_failure(one.pk, Failure.REFUSED, "its address cannot be requested", 0, now)


def postpone_feed(feed_id: int, wait: timedelta, now: datetime) -> None:
    """Postpones a feed whose host rests. Raises DatabaseError."""
    reason = f"Its host is on hold for {humanize.format_span(wait)}: fetched after that."
    if wait > MAX_POSTPONED:
        reason += f" The hold may end sooner: checked again every {humanize.format_span(MAX_POSTPONED)}."
    at = now + min(wait, MAX_POSTPONED) * (1 + random.random() / 20)
    _update_feed(feed_id, {"next_check_at": at, "reason": reason}, now)


def _decide_after_failure(feed_id: int, failure: Failure, detail: str, wait_seconds: float, now: datetime) -> None:
    feed = Feed.objects.filter(pk=feed_id).first()
    if feed is None:  # deleted meanwhile
        return
    timing = OutcomeTiming(now.timestamp(), 0)
    failed = FetchFailed(failure, detail.rstrip("."), timing, retry_after_seconds=wait_seconds)
    given = feed_rows.read_circumstances(feed, now, random.random())
    decision = next_check.decide_next_check(feed_rows.read_feed_state(feed), failed, (), given)
    _update_feed(feed_id, {**feed_rows.decision_fields(decision), "trouble": trouble_of(failed).name}, now)


def _update_feed(feed_id: int, fields: Mapping[str, object], now: datetime) -> None:
    """Updates a feed unless a result was stored meanwhile. A later flag still has it fetched before the rest."""
    flagged_at = Case(When(flagged_at__gt=now, then=F("flagged_at")), default=None)
    rows = Feed.objects.filter(pk=feed_id).exclude(checked_at__gte=now)
    rows.update(**fields, handed_over_at=None, flagged_at=flagged_at)
