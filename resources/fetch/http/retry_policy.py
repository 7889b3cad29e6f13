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
    `stall_seconds` is the longest delay in all by throttling and our own troubles, which are no attempts.
    """

    attempts: int = 5
    slow_attempts: int = 2
    base_seconds: float = 2
    max_seconds: float = 600
    stall_seconds: float = 86_400


@dataclass(frozen=True, slots=True)
class RetryLater:
    """Decision to try again, not before so many seconds from now."""

    delay_seconds: float


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Decision not to try again. `why` is for people."""

    why: str


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


def next_step(
    failure: Failure,
    *,
    attempts: int,
    waited_seconds: float,
    retry_after_seconds: float | None,
    patience: RetryPatience,
    random: Callable[[], float],
) -> RetryLater | GiveUp:
    """Decides on the next attempt after a failure.

    `attempts` are those that count, this one included; `waited_seconds` is the age of the job.
    `random` gives numbers from 0 to 1. Retry-After is the floor: the jitter comes on top of it, so that
    jobs with the same Retry-After do not come back at the same moment.
    """
    if failure in _NEVER_RETRIED:
        return GiveUp(f"{failure.value}: not tried again")
    floor = retry_after_seconds or 0.0
    if failure in UNCOUNTED_FAILURES:
        if waited_seconds + floor > patience.stall_seconds:
            return GiveUp(f"{failure.value} for {waited_seconds / 3600:.1f} hours")
    elif attempts >= (most := patience.slow_attempts if failure is Failure.TOO_SLOW else patience.attempts):
        return GiveUp(f"{failure.value}, {most} times")
    return RetryLater(floor + random() * longest_pause(attempts, patience))


def longest_pause(attempts: int, patience: RetryPatience) -> float:
    """Returns the upper end of the pause after so many attempts, in seconds."""
    exponent = min(max(attempts, 1) - 1, MAX_BACKOFF_EXPONENT)
    return min(patience.base_seconds * 2.0**exponent, patience.max_seconds)
