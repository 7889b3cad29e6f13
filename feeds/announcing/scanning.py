"""Hands over to the fetchers what the hub is to be told. Rows are the truth: what is lost on the way is told again.

The hub asks for what has changed as soon as it is told. So pages are rendered first, and the hub is told when the
front has no older ones any more.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial

from django.conf import settings

from resources import locks
from resources.fetching import publishing
from resources.fetching.publishing import Order
from resources.fetching.queues.jobs import Full
from retry import claims, connections, serving, standings
from retry.deciding import Answer, Fail, Serve
from retry.standings import Begun
from retry.work import Work

from ..composing import subjects
from ..serving.work import render_work
from . import changed, pages
from .changed import Changed
from .work import FORMATS, LANE, work

LOCK, LOCK_SECONDS = "feeds:announcing", 30
MOST_LOOKED_AT = 1000
"""Feeds in one pass, and as many combinations: more than rest, or have pages that the hub refuses."""
MOST_AT_ONCE = 100
"""Of these: room is left for others in the lane. The latest first, so that none of those is in their way."""


def scan(now: datetime) -> int:
    """One pass: how many requests were handed over. Nothing without FEEDS_HUB, or while another pass is at it.

    Raises StoreUnavailable and DatabaseError.
    """
    return locks.alone(LOCK, LOCK_SECONDS, partial(_scan, now)) if settings.FEEDS_HUB else 0


def _scan(now: datetime) -> int:
    found = _rested(changed.changed(now, MOST_LOOKED_AT))
    return sum(_announce(one, now) for one in found[:MOST_AT_ONCE])


def _rested(found: Sequence[Changed]) -> list[Changed]:
    """Those that the hub was not told of just now: however often something changes, it is told once in a while."""
    with locks.state() as client, client.pipeline(transaction=False) as pipeline:
        for one in found:
            pipeline.exists(_told_of(one))
        rests = pipeline.execute()
    return [one for one, is_resting in zip(found, rests, strict=True) if not is_resting]


def _announce(one: Changed, now: datetime) -> int:
    """What is on its way already, or has failed of late, leaves the row as it is: it comes again, for that alone."""
    answers = _pages(one)
    if any(isinstance(answer, Fail) for answer in answers):  # there is nothing that the hub could ask for
        changed.told(one, one.version)
        return 0
    version = _shown(answers, now)
    if version is None:
        return 0
    with locks.state() as client:
        client.set(_told_of(one), 1, ex=settings.FEEDS_HUB_SECONDS)
    paths = pages.untold(one.row, [one.page.as_format(each).path for each in FORMATS], version)
    return _hand_over(one, {path: work(settings.FEEDS_HUB, path, one.row) for path in paths}, version)


def _pages(one: Changed) -> list[Answer]:
    """Its pages as they are cached. What is not there, or was announced before, is rendered."""
    found = []
    for each in FORMATS:
        asked = one.page.as_format(each)
        key = subjects.content_key(asked, one.subject)
        found.append(serving.find_answer(key, render_work(asked, key, one.version), one.announced_version + 1))
    return found


def _shown(answers: Sequence[Answer], now: datetime) -> int | None:
    """The version that everybody is shown by now; None where older pages still may be."""
    shown = [answer.content for answer in answers if isinstance(answer, Serve) and not answer.stale]
    hot = timedelta(seconds=settings.HOT_SECONDS)
    if len(shown) < len(answers) or any(now - page.stored_at < hot for page in shown):
        return None
    return min(page.version for page in shown)


def _hand_over(one: Changed, works: Mapping[str, Work], version: int) -> int:
    """How many were taken of those that are still to be told, by path. The claims of others are taken back.

    What could not be told is noted after this: so what is being told is noted before it is published.
    """
    calls = [claims.beginning(each, refresh=True) for each in works.values()]
    replies = connections.execute_all_patiently("state", calls)
    orders = {
        path: Order(each.task, each.key, stands.token, each.arguments, LANE)
        for (path, each), stands in zip(works.items(), map(standings.standing, replies), strict=True)
        if isinstance(stands, Begun)
    }
    if orders:
        pages.note(one.row, orders, version)
    if len(orders) == len(works):
        changed.told(one, version)
    refused = _publish(orders)
    if refused:
        changed.untold(one.row)
        pages.forget(one.row, *refused)
    return len(orders) - len(refused)


def _publish(orders: Mapping[str, Order]) -> list[str]:
    """The paths of those that were not taken."""
    refused = [
        path
        for path, answer in zip(orders, publishing.publish_all(list(orders.values())), strict=True)
        if answer is None or isinstance(answer, Full) or publishing.is_left_alone(answer)
    ]
    if refused:
        calls = [claims.abandoning(orders[path].work_key, orders[path].token) for path in refused]
        connections.execute_all_patiently("state", calls)
    return refused


def _told_of(one: Changed) -> str:
    return f"feeds:announced:{one.row}"
