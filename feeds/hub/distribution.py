"""Tells the subscribers of this site's hub of changes: marks them as owed, hands deliveries over, notes the results.

Rows are the marks: a subscriber is owed what it has not been told, so a pass that dies half-way, or a result that is
lost, costs a repetition and loses nobody. A pass is short, and the next one goes on where it ended, by the rows. All
that is owed is handed to the frontier at once, which asks each host as fast as that one allows: no subscriber waits for
another host's. Those that failed go by a lane of their own, so that they take no slot from others.
"""

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Case, Count, F, Q, QuerySet, Value, When, Window
from django.db.models.functions import RowNumber

from resources import humanize, locks
from resources.fetch import dispatch
from resources.fetch.dispatch import EnqueueOutcome, OriginBusy, QueuedWork, UrlRefused, WorkEnqueued
from retry.claim_state import LaneFull, WorkDone, WorkFailed
from retry.work import Work

from ..hub_models import HubTopic, Subscriber
from ..push import leases, websub
from ..push.kinds import PushKind
from ..push.leases import FIRST_DELIVERY_PAUSE, MAX_DELIVERY_FAILURES, SubscriberStatus
from . import registration, topics
from .fetch_task import RESULTS_KEY, DeliveryResult, request_stamp

DELIVER_TASK, VERIFY_TASK = "feeds.deliver", "feeds.verify_subscriber"
LANE, LAGGARDS_LANE = "fetch.hub", "fetch.laggards"
PASS_LOCK, PASS_LOCK_SECONDS = "feeds:distributing", 30
PASS_SECONDS = 1.5
"""The time that a pass takes at the most: other tasks of the worker wait for it."""
ROWS_AT_ONCE = 500
MAX_TOPICS = 100
HAND_OVER_AGAIN_AFTER = timedelta(minutes=2)
"""The time after which a delivery is handed over again: it joins its own claim, if that is still there."""
ASK_AGAIN_AFTER, MAX_ASKS = timedelta(minutes=1), 5
QUESTIONS_SHARE = 4
"""Callbacks of one domain have a quarter of all places for questions: others find room, however many are silent."""
MIN_WAIT = timedelta(seconds=1)
KEEP_ENDED_FOR = timedelta(days=7)
GONE_REASON = "There is no such feed any longer."


def distribute_changes(now: datetime) -> int:
    """Makes one pass; returns the number of requests handed over. 0 without this hub, or while another pass runs.

    Raises StoreUnavailable and DatabaseError.
    """
    if settings.FEEDS_HUB != websub.OWN_HUB:
        return 0
    return locks.run_alone(PASS_LOCK, PASS_LOCK_SECONDS, partial(_distribute_alone, now))


def _distribute_alone(now: datetime) -> int:
    until = time.monotonic() + PASS_SECONDS
    _repeat(partial(note_results, now), until)
    for topic in topics.changed_topics(now, MAX_TOPICS):
        begin_distribution(topic, now)
    handed_over = hand_over_questions(now)
    handed_over += _repeat(partial(hand_over_deliveries, now, to_laggards=False), until)
    return handed_over + _repeat(partial(hand_over_deliveries, now, to_laggards=True), until)


def _repeat(step: Callable[[], int], until: float) -> int:
    """Repeats a step of ROWS_AT_ONCE rows until it has fewer, or the time has come. Returns the sum."""
    found = total = step()
    while found >= ROWS_AT_ONCE and time.monotonic() < until:
        found = step()
        total += found
    return total


def begin_distribution(topic: HubTopic, now: datetime) -> bool:
    """Marks the topic's subscribers as owed its last change, once its page is rendered. Raises DatabaseError.

    A cloud's subscribers are told a little later: they fetch the topic, and would be shown the front's older page.
    """
    chosen = topics.choose_page(topic)
    if chosen is None:
        return False
    entries, page = chosen
    later = now + timedelta(seconds=settings.HOT_SECONDS)
    at = Case(When(kind=PushKind.RSSCLOUD.value, then=Value(later)), default=Value(now))
    with transaction.atomic():  # a topic whose subscribers were not marked would not be looked at again
        HubTopic.objects.filter(pk=topic.pk).update(version=page.version, entries=entries, announced_at=now)
        current = Subscriber.objects.filter(topic=topic, state=SubscriberStatus.VERIFIED.value)
        owed = current.filter(told_version__lt=page.version)
        owed.filter(due_at=None).update(wanted_version=page.version, due_at=at)
        owed.filter(wanted_version__lt=page.version).update(wanted_version=page.version)
    return True


def hand_over_deliveries(now: datetime, *, to_laggards: bool) -> int:
    """Hands over due deliveries, ROWS_AT_ONCE at the most; returns their number, 0 when their lane is full.

    Those to laggards, who have failed, go apart, so that no other is behind them. Raises StoreUnavailable and
    DatabaseError.
    """
    due = Subscriber.objects.filter(due_at__lte=now, state=SubscriberStatus.VERIFIED.value, expires_at__gt=now)
    due = due.filter(failures__gt=0) if to_laggards else due.filter(failures=0)
    rows = list(due.only("callback", "topic", "wanted_version", "failures").order_by("due_at", "pk")[:ROWS_AT_ONCE])
    works = {row.pk: QueuedWork(delivery_work(row)) for row in rows}
    outcomes = _hand_over(works, "due_at", now + HAND_OVER_AGAIN_AFTER, now)
    return 0 if any(isinstance(outcome, LaneFull) for outcome in outcomes.values()) else len(rows)


def delivery_work(row: Subscriber) -> Work:
    """The work that tells a subscriber of the version that it is owed."""
    lane = LAGGARDS_LANE if row.failures else LANE
    arguments = (row.callback, row.pk, row.topic_id, row.wanted_version)
    return Work(f"fetch:hub:{row.pk}", "hub delivery", lane, lane, DELIVER_TASK, arguments)


def hand_over_questions(now: datetime) -> int:
    """Has callbacks asked whether they want what was requested for them; returns the number handed over.

    They have half of a fetcher's slots at the most: a stranger's request may name a silent one. Callbacks of one domain
    have a QUESTIONS_SHARE of these. Raises StoreUnavailable and DatabaseError.
    """
    due = Subscriber.objects.filter(ask_at__lte=now)
    for row in due.filter(asks__gte=MAX_ASKS).order_by("ask_at", "pk")[:ROWS_AT_ONCE]:
        registration.reject_request(row, "Its callback could not be asked.", now)
    rows = _rows(_choose_questions(due.filter(asks__lt=MAX_ASKS), now))
    works = {row.pk: QueuedWork(question_work(row)) for row in rows.order_by("ask_at", "pk")}
    outcomes = _hand_over(works, "ask_at", now + ASK_AGAIN_AFTER, now, asks=F("asks") + 1)
    return sum(isinstance(outcome, WorkEnqueued) for outcome in outcomes.values())


def _choose_questions(due: QuerySet[Subscriber], now: datetime) -> list[int]:
    """The rows to ask next: first those of the domains with the fewest questions in hand, then the longest waiting."""
    asked = Subscriber.objects.filter(ask_at__gt=now, ask_at__lte=now + ASK_AGAIN_AFTER, asks__gt=0)
    in_hand = Counter(dict(asked.order_by().values_list("host").annotate(Count("pk"))))
    most = max(1, settings.FETCH_SLOTS // 2)
    room, share = most - in_hand.total(), max(1, most // QUESTIONS_SHARE)
    if room <= 0:
        return []
    nth = Window(RowNumber(), partition_by=[F("host")], order_by=[F("ask_at"), F("pk")])
    others = due.exclude(host__in=[host for host, number in in_hand.items() if number >= share])
    first = others.annotate(nth=nth).filter(nth__lte=share).order_by("nth", "ask_at", "pk")
    rows = list(first.values_list("host", "nth", "ask_at", "pk")[:ROWS_AT_ONCE])
    chosen = sorted((in_hand[host] + place, at, pk) for host, place, at, pk in rows)
    return [pk for place, _, pk in chosen if place <= share][:room]


def question_work(row: Subscriber) -> Work:
    """The work that asks the callback about the row's request."""
    stamp = request_stamp(row)
    key = f"fetch:hub-question:{row.pk}:{stamp}"
    return Work(key, "hub verification", LANE, LANE, VERIFY_TASK, (row.callback, row.pk, stamp))


def _hand_over(
    works: Mapping[int, QueuedWork], due: str, again_at: datetime, now: datetime, **fields: Any
) -> dict[int, EnqueueOutcome]:
    """Hands over the works, by their rows, which are due again at that time, or when the outcome says so."""

    def write_rows(begun: Collection[int], in_hand: Collection[int]) -> None:
        _rows([*begun, *in_hand]).update(**{due: again_at}, **fields)

    outcomes = dispatch.claim_and_enqueue(works, refresh=True, write_rows=write_rows) if works else {}
    waits: dict[datetime, list[int]] = {}
    for pk, outcome in outcomes.items():
        if (wait := _wait_after(outcome)) is not None:
            waits.setdefault(now + wait, []).append(pk)
    for at, ids in waits.items():
        _rows(ids).update(**{due: at})
    return outcomes


def _wait_after(outcome: EnqueueOutcome) -> timedelta | None:
    """The time until a work is handed over again that could not be now; None if it was, or stays due."""
    match outcome:
        case WorkFailed() | WorkDone() | OriginBusy():
            return max(timedelta(seconds=round(outcome.wait_seconds)), MIN_WAIT)
        case UrlRefused():
            return HAND_OVER_AGAIN_AFTER
    return None


def _rows(ids: Sequence[int]) -> QuerySet[Subscriber]:
    return Subscriber.objects.filter(pk__in=ids)


def note_results(now: datetime) -> int:
    """Writes ROWS_AT_ONCE results of deliveries into the rows, and returns their number.

    They are removed when the rows are written: a pass that dies writes them twice. Raises StoreUnavailable and
    DatabaseError.
    """
    with locks.open_state() as client:
        held = client.lrange(RESULTS_KEY, 0, ROWS_AT_ONCE - 1)
    results = [DeliveryResult.from_json(each) for each in held]
    _note_successes([each for each in results if not each.trouble], now)
    _note_failures([each for each in results if each.trouble], now)
    if held:
        with locks.open_state() as client:
            client.ltrim(RESULTS_KEY, len(held), -1)
    return len(held)


def _note_successes(results: Iterable[DeliveryResult], now: datetime) -> None:
    by_version: dict[int, list[int]] = {}
    for each in results:
        by_version.setdefault(each.version, []).append(each.pk)
    for version, ids in by_version.items():
        newer = Case(When(wanted_version__gt=version, then=Value(now)), default=None)
        told = {"told_version": version, "due_at": newer, "failures": 0, "reason": ""}
        _rows(ids).filter(told_version__lt=version).update(delivered=F("delivered") + 1, delivered_at=now, **told)


def _note_failures(results: Iterable[DeliveryResult], now: datetime) -> None:
    by_pk = {each.pk: each for each in results}
    rows = list(_rows(list(by_pk)).filter(state=SubscriberStatus.VERIFIED.value, due_at__isnull=False))
    for row in rows:
        result = by_pk[row.pk]
        if result.is_gone:
            registration.end_subscriber(row.pk, "Its callback is gone (410).", now)
        elif result.is_uncounted:
            _rows([row.pk]).update(due_at=now + FIRST_DELIVERY_PAUSE, reason=f"Not delivered: {result.trouble}")
        elif (pause := leases.pause_after_failures(row.failures + 1)) is None:
            why = f"Dropped after {MAX_DELIVERY_FAILURES} deliveries in vain: {result.trouble}"
            registration.end_subscriber(row.pk, why, now)
        else:
            reason = f"Not delivered: {result.trouble} Delivered again after {humanize.format_span(pause)}."
            _rows([row.pk]).update(failures=F("failures") + 1, due_at=now + pause, reason=reason)


def prune_subscribers(now: datetime) -> None:
    """Ends subscriptions whose lease has passed or whose topic is gone; forgets what ended long ago.

    Raises DatabaseError.
    """
    ended, verified = SubscriberStatus.ENDED.value, SubscriberStatus.VERIFIED.value
    current = Subscriber.objects.filter(state=verified)
    current.filter(expires_at__lte=now).update(state=ended, ended_at=now, due_at=None, ask_at=None, intent="")
    gone = Q(topic__feed__is_hidden=True) | Q(
        topic__feed__slug=None, topic__category__slug=None
    )  # of rows: ids may outlive them
    denied = {"intent": websub.DENIED, "reason": GONE_REASON, "asked_at": now, "ask_at": now, "asks": 0}
    lost = current.filter(gone).exclude(intent=websub.DENIED)
    lost.filter(kind=PushKind.RSSCLOUD.value).update(state=ended, ended_at=now, due_at=None, reason=GONE_REASON)
    lost.filter(kind=PushKind.WEBSUB.value).update(due_at=None, **denied)
    Subscriber.objects.filter(state=ended, ended_at__lte=now - KEEP_ENDED_FOR).delete()
    HubTopic.objects.filter(subscribers=None, created_at__lte=now - KEEP_ENDED_FOR).delete()
