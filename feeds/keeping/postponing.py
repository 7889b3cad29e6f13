"""Feeds that could not be fetched now, without a request to their server: when they are looked at again."""

import random
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

from django.db.models import Case, F, When

from resources.fetching.outcomes import Failed, Failure, Timing
from retry import standings as claimed

from ..deciding import checking, words
from ..deciding.troubles import Trouble, trouble_of
from ..models import Feed
from . import standings

MOST_WAIT = timedelta(hours=1)
"""People can let a host be asked again before its time."""
BUSY = 503
"""Failure records of this status are nobody's failure: nobody was asked."""


def write(
    postponed: Mapping[int, timedelta],
    refused: Mapping[int, claimed.Failed],
    impossible: Collection[int],
    now: datetime,
) -> None:
    """Puts off what its host has no room for; decides anew about what has failed while nobody could wait for it.

    Raises DatabaseError.
    """
    for feed_id, wait in postponed.items():
        _put_off(feed_id, wait, now)
    for feed_id, record in refused.items():
        _decide(feed_id, _failure(record), record.detail, record.wait_seconds, now)
    for feed_id in impossible:
        _decide(feed_id, Failure.REFUSED, "its address is none that can be asked", 0, now)


def _failure(record: claimed.Failed) -> Failure:
    return Failure.POSTPONED if record.status == BUSY else Failure.TRANSIENT


def _put_off(feed_id: int, wait: timedelta, now: datetime) -> None:
    reason = f"Its host is left alone for {words.span(wait)}: fetched after that."
    if wait > MOST_WAIT:
        reason += f" That may end sooner: looked at again every {words.span(MOST_WAIT)}."
    at = now + min(wait, MOST_WAIT) * (1 + random.random() / 20)
    _update(feed_id, {"next_check_at": at, "reason": reason}, now)


def _decide(feed_id: int, failure: Failure, detail: str, wait_seconds: float, now: datetime) -> None:
    feed = Feed.objects.filter(pk=feed_id).first()
    if feed is None:  # deleted meanwhile
        return
    timing = Timing(now.timestamp(), 0)
    failed = Failed(failure, detail.rstrip("."), timing, retry_after_seconds=wait_seconds)
    given = standings.circumstances(feed, now, random.random())
    decision = checking.decide(standings.standing_of(feed), failed, (), given)
    trouble: Trouble = trouble_of(failed)
    _update(feed_id, {**standings.fields_of(decision), "trouble": trouble.name}, now)


def _update(feed_id: int, fields: Mapping[str, object], now: datetime) -> None:
    """Unless something has come meanwhile. What was flagged since is still to be fetched before the rest."""
    flagged_at = Case(When(flagged_at__gt=now, then=F("flagged_at")), default=None)
    rows = Feed.objects.filter(pk=feed_id).exclude(checked_at__gte=now)
    rows.update(**fields, handed_over_at=None, flagged_at=flagged_at)
