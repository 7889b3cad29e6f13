"""The scan of subscriptions: it begins and ends them, and hands the due ones over to the fetchers.

First a claim, then the row, then the job: a process that dies between them leaves a claim that is swept, or a row
that is looked at again. Requests already under way stay as they are. The scan waits for no answer.
"""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from functools import partial

from django.conf import settings
from django.db.models import Exists, OuterRef, QuerySet

from resources import humanize, locks
from resources.fetch import dispatch
from resources.fetch.dispatch import EnqueueOutcome, OriginBusy, QueuedWork, UrlRefused, WorkEnqueued
from retry.claim_state import WorkDone, WorkFailed
from retry.work import Work

from ..hub_models import Subscription
from ..push.leases import RequestMissed, SubscriptionStatus
from ..scan import push_trust
from . import fetch_task, subscribe

TASK_NAME = "feeds.ask_hub"
LANE = "fetch.calls"
MAX_HANDED_OVER = 200
"""The number in one pass: room is left for others in the lane."""
LOOK_AGAIN_AFTER = timedelta(minutes=1)
"""The time after which a subscription is handed over again: it joins its own claim, if that is still there."""
QUIET_LOOK_AFTER = timedelta(hours=1)
"""The time after which a quiet feed is checked for updates."""
MIN_WAIT = timedelta(seconds=1)
QUIET_REASON = "Not renewed: the feed has no readers, or no recent entries."
SCAN_LOCK, SCAN_LOCK_SECONDS = "feeds:subscribing", 30
KEEP_ENDED_FOR = timedelta(days=30)
"""The time for which the callback of an ended subscription answers that it is gone."""


def scan_subscriptions(now: datetime) -> int:
    """Makes one scan; returns the number of requests handed over. Does nothing while another one runs.

    Without FEEDS_PUSH no server is asked. Raises StoreUnavailable and DatabaseError.
    """
    return locks.run_alone(SCAN_LOCK, SCAN_LOCK_SECONDS, partial(_scan_alone, now))


def _scan_alone(now: datetime) -> int:
    subscribe.end_unwanted_subscriptions(now)
    subscribe.prune_subscriptions(now - KEEP_ENDED_FOR)
    push_trust.tighten_untrusted(now)
    if not settings.FEEDS_PUSH:
        return 0
    subscribe.begin_wanted_subscriptions(now)
    return hand_over_due_subscriptions(now)


def hand_over_due_subscriptions(now: datetime) -> int:
    """Hands over due subscriptions and returns their number; unwanted ones end.

    Raises StoreUnavailable and DatabaseError.
    """
    due = Subscription.objects.filter(due_at__lte=now).select_related("hub").order_by("due_at")
    is_wanted = Exists(subscribe.wanted_feeds(now).filter(pk=OuterRef("feed_id")))
    rows = list(due.annotate(is_wanted=is_wanted)[:MAX_HANDED_OVER])
    asked = [row for row in rows if row.is_wanted or row.state == SubscriptionStatus.LEAVING.value]
    for row in rows:
        if row not in asked:
            _let_expire(row, now)
    return _hand_over_rows(asked, now) if asked else 0


def subscription_work(row: Subscription) -> Work:
    """The work of a subscription's request."""
    return Work(f"fetch:subscription:{row.pk}", "subscription", LANE, LANE, TASK_NAME, (row.hub.url, row.pk))


def _let_expire(row: Subscription, now: datetime) -> None:
    """Lets the subscription of a quiet feed expire, unless the feed is updated before. Until then pushes are taken."""
    if row.state == SubscriptionStatus.VERIFIED.value and row.expires_at is not None and row.expires_at > now:
        due_at = min(row.expires_at, now + QUIET_LOOK_AFTER)
        Subscription.objects.filter(pk=row.pk).update(due_at=due_at, reason=QUIET_REASON)
    else:
        subscribe.end_subscription(row, QUIET_REASON, now)


def _hand_over_rows(rows: Sequence[Subscription], now: datetime) -> int:
    def write_rows(begun: Collection[int], in_hand: Collection[int]) -> None:
        _still_due_rows([*in_hand, *begun], now).update(due_at=now + LOOK_AGAIN_AFTER)

    wanted = {row.pk: QueuedWork(subscription_work(row)) for row in rows}
    outcomes = dispatch.claim_and_enqueue(wanted, refresh=False, write_rows=write_rows)
    for row in rows:
        _note_outcome(row, outcomes[row.pk], now)
    return sum(isinstance(outcome, WorkEnqueued) for outcome in outcomes.values())


def _note_outcome(row: Subscription, outcome: EnqueueOutcome, now: datetime) -> None:
    """Puts off a subscription that cannot be asked for now. It stays due while the lane is full."""
    match outcome:
        case WorkFailed() | WorkDone():
            wait = max(timedelta(seconds=outcome.wait_seconds), MIN_WAIT)
            _still_due_rows([row.pk], now).update(due_at=now + wait)
        case OriginBusy(wait_seconds):
            wait = timedelta(seconds=wait_seconds)
            reason = f"Its server is on hold for {humanize.format_span(wait)}: requested after that."
            unasked = Subscription.objects.filter(pk=row.pk, asked_at=row.asked_at)
            unasked.update(due_at=now + max(wait, MIN_WAIT), reason=reason)
        case UrlRefused():
            fetch_task.settle_answer(row, RequestMissed("its address cannot be requested."), now)


def _still_due_rows(ids: Sequence[int], now: datetime) -> QuerySet[Subscription]:
    return Subscription.objects.filter(pk__in=ids, due_at__lte=now)
