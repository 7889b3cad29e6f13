"""Decides when a URL may be requested again: after a failure, or since its content may have changed. PURE.

A request or a report that comes later than this has the URL fetched. Without one, nothing is fetched.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from resources.fetch.http.messages import Failure, Head

RETRY_PAUSES = (timedelta(hours=1), timedelta(hours=6), timedelta(days=1), timedelta(weeks=1))
"""The pause after each failed round in a row. The last one repeats."""
REFUSAL_PAUSE = timedelta(days=1)
"""The shortest pause after 403, 404 and an address that is not fetched: they rarely change within a day."""

MIN_FRESH_SECONDS, MAX_FRESH_SECONDS = 300.0, 30 * 86_400.0
"""Bounds for what origins say: a file that is shown often costs them a request in five minutes at most."""
USUAL_FRESH_SECONDS = 86_400.0
"""The freshness of an answer that neither says one nor has a Last-Modified."""
LONGEST_FRESHNESS = timedelta(seconds=MAX_FRESH_SECONDS)
LATEST_TURN = timedelta(days=1, minutes=1)
"""No waiting row is due later than this from now, unless a clock that was ahead wrote it."""
LATEST_DUE = LONGEST_FRESHNESS + timedelta(minutes=1)
"""The same for all rows."""

_REFUSALS, _SIGNATURE_REFUSALS, _GONE = frozenset({403, 404}), frozenset({401, 403}), 410
_PASSING_FAILURES = frozenset(one.value for one in Failure)
"""Other failures are decisions of this site: blocked hosts, takedowns."""


def is_past(due_at: datetime, now: datetime) -> bool:
    """Tells whether the time has come. A time that no clock in order would write has come, too."""
    return not now < due_at <= now + LATEST_DUE


def next_try_at(
    failure: str, status: int | None, rounds: int, now: datetime, *, wait_seconds: float = 0
) -> datetime | None:
    """Returns when a failed URL may be tried again, after so many failed rounds in a row. None: not by itself.

    `status` is the origin's answer, if there was one; `wait_seconds` is the wait that it asked for.
    """
    if failure not in _PASSING_FAILURES or status == _GONE:
        return None
    if failure == Failure.EXPIRED.value and status not in _SIGNATURE_REFUSALS:  # the signature's own time is over
        return None
    pause = RETRY_PAUSES[min(max(rounds, 1), len(RETRY_PAUSES)) - 1]
    if status in _REFUSALS or failure == Failure.REFUSED.value:
        pause = max(pause, REFUSAL_PAUSE)
    return now + max(pause, timedelta(seconds=wait_seconds))


def other_request_pause(rounds: int) -> timedelta:
    """Returns the pause before another request for a URL whose request was refused: doubled each time, up to a day."""
    hours = 2.0 ** (min(max(rounds, 1), 6) - 1)
    return min(timedelta(hours=hours), timedelta(days=1))


def next_check_at(head: Head, now: datetime) -> datetime:
    """Returns when stored content may have changed at its origin, by the head of the answer that confirmed it.

    `no-store` counts as silence: it forbids caches, and says nothing of changes.
    """
    freshness = head.freshness if head.freshness.may_store else replace(head.freshness, may_store=True)
    seconds = freshness.fresh_seconds(
        now.timestamp(), least=MIN_FRESH_SECONDS, most=MAX_FRESH_SECONDS, otherwise=USUAL_FRESH_SECONDS
    )
    return now + timedelta(seconds=seconds)
