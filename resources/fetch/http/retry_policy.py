"""Decides on the failure that a status means, and on the next attempt: back-off with full jitter.

Knows one job only. Many failures of a host, a domain or our own network are judged in the frontier.

PURE: imports neither Django, Celery, Redis nor the network; the time is an argument.
"""

from collections.abc import Callable
from dataclasses import dataclass

from .messages import Failure

MAX_BACKOFF_EXPONENT = 30

_THROTTLED_STATUSES = frozenset({420, 429, 503, 509, 529})
_TRANSIENT_STATUSES = frozenset({407, 408, 409, 421, 423, 425, 511})
_UNABLE_STATUSES = frozenset({501, 505})
_NEVER_RETRIED = frozenset({Failure.PERMANENT, Failure.REFUSED, Failure.TOO_BIG, Failure.EXPIRED})
UNCOUNTED_FAILURES = frozenset({Failure.THROTTLED, Failure.POSTPONED, Failure.OURS})


@dataclass(frozen=True, slots=True)
class RetryPatience:
    """The number of attempts at one URL, and their pauses.

    A pause is between nothing and `base_seconds` doubled with each attempt, at most `max_seconds`: full jitter.
    `stall_seconds` is the longest Retry-After that is waited for. The frontier ends jobs that stall for as long.
    """

    attempts: int = 5
    slow_attempts: int = 2
    base_seconds: float = 2
    max_seconds: float = 600
    stall_seconds: float = 86_400


def failure_of_status(status: int, *, asked_to_wait: bool) -> Failure | None:
    """Returns the failure that an answer's status means, None for 2xx. Redirects and 304 are handled elsewhere.

    `asked_to_wait`: it came with a Retry-After that makes sense. With one, 403 and 5xx are limits too.
    """
    if 200 <= status < 300:
        return None
    if status in _THROTTLED_STATUSES or (asked_to_wait and (status == 403 or status >= 500)):
        return Failure.THROTTLED
    if status in _TRANSIENT_STATUSES or (500 <= status < 600 and status not in _UNABLE_STATUSES):
        return Failure.TRANSIENT
    return Failure.PERMANENT


def choose_retry_seconds(
    failure: Failure,
    *,
    attempts: int,
    retry_after_seconds: float | None,
    patience: RetryPatience,
    random: Callable[[], float],
) -> float | None:
    """Returns the seconds until the next attempt after a failure; None if there is to be none.

    `attempts` are those that count, this one included. `random` gives numbers from 0 to 1. Retry-After is the floor:
    the jitter comes on top of it, so that jobs with the same Retry-After do not come back at the same moment.
    """
    floor = retry_after_seconds or 0.0
    if failure in UNCOUNTED_FAILURES:
        may_retry = floor <= patience.stall_seconds
    else:
        most = patience.slow_attempts if failure is Failure.TOO_SLOW else patience.attempts
        may_retry = failure not in _NEVER_RETRIED and attempts < most
    return floor + random() * longest_pause(attempts, patience) if may_retry else None


def longest_pause(attempts: int, patience: RetryPatience) -> float:
    """Returns the upper end of the pause after so many attempts, in seconds."""
    exponent = min(max(attempts, 1) - 1, MAX_BACKOFF_EXPONENT)
    return min(patience.base_seconds * 2.0**exponent, patience.max_seconds)
