"""Hands subscriptions that are due over to the fetchers. What is under way already stays as it is.

First a claim, then the row, then the job: whoever dies between them leaves a claim that is swept, or a row that is
looked at again.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db.models import Exists, OuterRef, QuerySet

from resources.fetching import publishing
from resources.fetching.publishing import Order
from resources.fetching.queues.jobs import Full as OutOfRoom
from retry import claims, connections, standings
from retry.scripts import Call
from retry.standings import Begun, Claimed, Full, Promoted, Unknown
from retry.work import Work

from ..deciding import words
from ..pushing.renewing import Missed, State
from ..subscriptions import Subscription
from . import preparing, wanting

NAME = "feeds.ask_hub"
LANE = "fetch.calls"
MOST_AT_ONCE = 200
"""In one pass: room is left for others in the lane."""
LOOK_AGAIN = timedelta(minutes=1)
"""After which what was handed over is handed over again: it joins itself, if it is still there."""
QUIET_FOR = timedelta(hours=1)
"""After which it is looked whether a quiet feed was updated."""
LEAST_WAIT = timedelta(seconds=1)
QUIET = "Its feed has been quiet for long, or nobody reads it: not renewed."


def hand_over_due(now: datetime) -> int:
    """Hands over what is due; how many. What is not wanted any more ends. Raises StoreUnavailable, DatabaseError."""
    due = Subscription.objects.filter(due_at__lte=now).select_related("hub").order_by("due_at")
    is_wanted = Exists(wanting.wanted(now).filter(pk=OuterRef("feed_id")))
    rows = list(due.annotate(is_wanted=is_wanted)[:MOST_AT_ONCE])
    asked = [row for row in rows if row.is_wanted or row.state == State.LEAVING.value]
    for row in rows:
        if row not in asked:
            _let_expire(row, now)
    return _hand_over(asked, now) if asked else 0


def work_of(row: Subscription) -> Work:
    """The request as work. Its address has a fragment, which is not sent: each is a request of its own."""
    arguments = (f"{row.hub.url.partition('#')[0]}#{row.pk}", row.pk)
    return Work(f"subscription:{row.pk}", "subscription", LANE, LANE, NAME, arguments)


def _let_expire(row: Subscription, now: datetime) -> None:
    """A quiet feed is not renewed, unless it is updated before it expires. Until then, its pushes are welcome."""
    if row.state == State.VERIFIED.value and row.expires_at is not None and row.expires_at > now:
        due_at = min(row.expires_at, now + QUIET_FOR)
        Subscription.objects.filter(pk=row.pk).update(due_at=due_at, reason=QUIET)
    else:
        wanting.end_one(row, QUIET, now)


def _hand_over(rows: Sequence[Subscription], now: datetime) -> int:
    works = [work_of(row) for row in rows]
    replies = connections.execute_all_patiently("state", [claims.beginning(work, refresh=False) for work in works])
    begun: list[tuple[Subscription, Order]] = []
    in_hand: list[int] = []
    for row, work, stands in zip(rows, works, map(standings.standing, replies), strict=True):
        match stands:
            case Begun(token):
                begun.append((row, Order(work.task, work.key, token, work.arguments, LANE)))
            case Claimed() | Promoted():
                in_hand.append(row.pk)
            case Full():  # it stays due
                pass
            case Unknown():
                _put_off(row, LEAST_WAIT, now)
            case _:
                _put_off(row, timedelta(seconds=stands.wait_seconds), now)
    _still_due([*in_hand, *(row.pk for row, _ in begun)], now).update(due_at=now + LOOK_AGAIN)
    return _publish(begun, now)


def _publish(begun: Sequence[tuple[Subscription, Order]], now: datetime) -> int:
    abandoned: list[Call] = []
    for (row, order), answer in zip(begun, publishing.publish_all([order for _, order in begun]), strict=True):
        if answer is not None and not isinstance(answer, OutOfRoom) and not publishing.is_left_alone(answer):
            continue
        abandoned.append(claims.abandoning(order.work_key, order.token))
        if answer is None:
            preparing.settle(row, Missed("its address is none that can be asked."), now)
        else:
            seconds = answer.wait_seconds if isinstance(answer, OutOfRoom) else answer.closed_seconds
            _wait(row, timedelta(seconds=seconds), now)
    if abandoned:
        connections.execute_all_patiently("state", abandoned)
    return len(begun) - len(abandoned)


def _put_off(row: Subscription, wait: timedelta, now: datetime) -> None:
    _still_due([row.pk], now).update(due_at=now + max(wait, LEAST_WAIT))


def _wait(row: Subscription, wait: timedelta, now: datetime) -> None:
    """Its server is left alone for so long."""
    at, reason = now + max(wait, LEAST_WAIT), f"Its server is left alone for {words.span(wait)}: asked after that."
    Subscription.objects.filter(pk=row.pk, asked_at=row.asked_at).update(due_at=at, reason=reason)


def _still_due(ids: Sequence[int], now: datetime) -> QuerySet[Subscription]:
    """Unless something has come meanwhile."""
    return Subscription.objects.filter(pk__in=ids, due_at__lte=now)
