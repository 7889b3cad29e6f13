"""Hands feeds over to the fetchers, in the order in which they are to be fetched.

First a claim, then the row, then the job. Whoever dies between the steps leaves a claim that the sweeper publishes,
or a row that is looked at again.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db import transaction

from resources.fetching import publishing
from resources.fetching.publishing import Order
from resources.fetching.queues.jobs import Enqueued, Full, Joined, Priority
from retry import claims, connections, standings
from retry.scripts import Call, Reply
from retry.standings import Begun, Claimed, Promoted, Standing
from retry.work import Work

from ..keeping import locking, postponing
from ..models import Feed, Scan
from .due import Due
from .work import SCANNED, scan_work

LEAST_WAIT = timedelta(seconds=1)
"""A feed whose host is left alone is put off for so long at the least."""
MOST_SCAN = timedelta(minutes=5)
"""No scan goes on for as long."""


@dataclass(slots=True)
class Tray:
    """What becomes of some feeds."""

    handed_over: int = 0
    """How many of them are on their way since now; and `again`, of these, that had been lost on it."""
    again: int = 0
    postponed: dict[int, timedelta] = field(default_factory=dict)
    refused: dict[int, standings.Failed] = field(default_factory=dict)
    impossible: list[int] = field(default_factory=list)
    ending: list[int] = field(default_factory=list)
    """Those whose last fetch has just been stored and is about to end: they can be handed over in a moment."""
    full: bool = False


def hand_over(chosen: Sequence[tuple[Due, float]], scan: Scan | None, now: datetime) -> Tray:
    """Claims and publishes feeds with their expected seconds, in this order. Raises StoreUnavailable, DatabaseError.

    `now` is from before they were chosen: what was stored since is not fetched again.
    """
    tray = Tray()
    works = [scan_work(one.pk, one.url, is_private=one.is_private) for one, _ in chosen]
    found = [standings.standing(reply) for reply in _ask([claims.beginning(work, refresh=True) for work in works])]
    begun = {one.pk: one for (one, _), stands in zip(chosen, found, strict=True) if isinstance(stands, Begun)}
    claimed = [one for (one, _), stands in zip(chosen, found, strict=True) if isinstance(stands, Claimed | Promoted)]
    tray.ending += [one.pk for one in claimed if not one.was_in_hand]
    done = _mark(begun, {one.pk for one in claimed if one.was_in_hand}, scan, now)
    orders: list[tuple[Due, Order]] = []
    abandoned: list[Call] = []
    for (one, seconds), work, stands in zip(chosen, works, found, strict=True):
        if one.pk in done and isinstance(stands, Begun):
            abandoned.append(claims.abandoning(work.key, stands.token))
        elif (token := _token(one, stands, tray)) is not None:
            orders.append((one, _order(one, work, token, seconds)))
    abandoned += _publish(orders, begun, tray)
    _ask(abandoned)
    postponing.write(tray.postponed, tray.refused, tray.impossible, now)
    return tray


def _token(one: Due, stands: Standing, tray: Tray) -> int | None:
    """The token with which it is published; None where it is not."""
    match stands:
        case Begun(token):
            return token
        case Claimed(token) | Promoted(token) if one.is_flagged and one.was_in_hand:  # it is to come before the rest
            return token
        case standings.Full():
            tray.full = True
        case standings.Failed():
            tray.refused[one.pk] = stands
    return None


def _order(one: Due, work: Work, token: int, seconds: float) -> Order:
    priority = Priority.FLAGGED if one.is_flagged else None
    return Order(work.task, work.key, token, work.arguments, SCANNED, seconds, priority)


def _publish(orders: Sequence[tuple[Due, Order]], begun: Collection[int], tray: Tray) -> list[Call]:
    """Returns what takes back the claims of those that were not taken."""
    taken = publishing.publish_all([order for _, order in orders])
    abandoned: list[Call] = []
    for (one, order), answer in zip(orders, taken, strict=True):
        if _is_taken(one, answer, tray):
            tray.handed_over += one.pk in begun
            tray.again += one.pk in begun and one.was_in_hand
        elif one.pk in begun:
            abandoned.append(claims.abandoning(order.work_key, order.token))
    return abandoned


def _is_taken(one: Due, answer: Enqueued | Joined | Full | None, tray: Tray) -> bool:
    if answer is None:
        tray.impossible.append(one.pk)
        return False
    if isinstance(answer, Full) or publishing.is_left_alone(answer):
        wait = timedelta(seconds=answer.wait_seconds if isinstance(answer, Full) else answer.closed_seconds)
        tray.postponed[one.pk] = max(wait, LEAST_WAIT)
        return False
    return True


def _mark(begun: Mapping[int, Due], claimed: set[int], scan: Scan | None, now: datetime) -> set[int]:
    """What is in hand now; and what is still, unless it has come back meanwhile. Returns what was stored meanwhile.

    A row is written before its claim ends: what has a new claim was not stored since, or its row says so. What was
    lost on its way is still waited for by the scan that took it first.
    """
    if not begun and not claimed:
        return set()
    with transaction.atomic():
        locking.lock(Feed.objects.filter(pk__in={*begun, *claimed}))
        rows = Feed.objects.filter(pk__in=begun)
        # What was stored much later than now was stored before the clock was set back.
        done = set(rows.filter(checked_at__range=(now, now + MOST_SCAN)).values_list("pk", flat=True))
        again = {pk for pk, one in begun.items() if one.was_in_hand}
        rows.filter(pk__in=again - done).update(handed_over_at=now)
        rows.exclude(pk__in=again | done).update(handed_over_at=now, scan=scan)
        Feed.objects.filter(pk__in=claimed, handed_over_at__lt=now).update(handed_over_at=now)
    return done


def _ask(calls: Sequence[Call]) -> list[Reply]:
    return connections.execute_all_patiently("state", calls) if calls else []
