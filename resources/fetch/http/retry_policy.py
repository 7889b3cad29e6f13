"""What a failure means and when to try again: classes of statuses, back-off with full jitter. PURE.

Knows one job only. What many failures say of a host, a domain or our own network is judged elsewhere.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ..outcomes import Failure

MAX_EXPONENT = 30

_THROTTLED = frozenset({420, 429, 503, 509, 529})
_TRANSIENT = frozenset({407, 408, 409, 421, 423, 425, 511})
_UNABLE = frozenset({501, 505})
_ONCE = frozenset({Failure.PERMANENT, Failure.REFUSED, Failure.TOO_BIG, Failure.EXPIRED})
UNCOUNTED = frozenset({Failure.THROTTLED, Failure.POSTPONED, Failure.OURS})


@dataclass(frozen=True, slots=True)
class Patience:
    """How often and how long one thing is tried.

    A pause is between nothing and `base_seconds` doubled with each attempt, at most `max_seconds`: full jitter.
    `stall_seconds` is how long throttling and our own troubles, which are no attempts, may hold it up in all.
    """

    attempts: int = 5
    slow_attempts: int = 2
    base_seconds: float = 2
    max_seconds: float = 600
    stall_seconds: float = 86_400


@dataclass(frozen=True, slots=True)
class Again:
    """To be tried again, not before so many seconds from now."""

    delay_seconds: float


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Not to be tried again. `why` is for people."""

    why: str


def failure_of_status(status: int, *, asked_to_wait: bool) -> Failure | None:
    """What an answer's status says, if it is a failure; redirects and 304 are not looked at here.

    `asked_to_wait`: it came with a Retry-After that makes sense. With one, 403 and 5xx are limits too.
    """
    if 200 <= status < 300:
        return None
    if status in _THROTTLED or (asked_to_wait and (status == 403 or status >= 500)):
        return Failure.THROTTLED
    if status in _TRANSIENT or (500 <= status < 600 and status not in _UNABLE):
        return Failure.TRANSIENT
    return Failure.PERMANENT


def next_step(
    failure: Failure,
    *,
    attempts: int,
    waited_seconds: float,
    retry_after_seconds: float | None,
    patience: Patience,
    random: Callable[[], float],
) -> Again | GiveUp:
    """Whether and when to try again, after a failure.

    `attempts` are those made that count, this one included; `waited_seconds` is how long the job has been
    around. `random` gives numbers from 0 to 1. Retry-After is the floor: the jitter comes on top of it, so that
    jobs which were told the same moment do not come back at the same moment.
    """
    if failure in _ONCE:
        return GiveUp(f"{failure.value}: not tried again")
    floor = retry_after_seconds or 0.0
    if failure in UNCOUNTED:
        if waited_seconds + floor > patience.stall_seconds:
            return GiveUp(f"{failure.value} for {waited_seconds / 3600:.1f} hours")
    elif attempts >= (most := patience.slow_attempts if failure is Failure.TOO_SLOW else patience.attempts):
        return GiveUp(f"{failure.value}, {most} times")
    return Again(floor + random() * longest_pause(attempts, patience))


def longest_pause(attempts: int, patience: Patience) -> float:
    """The upper end of the pause after so many attempts, in seconds."""
    exponent = min(max(attempts, 1) - 1, MAX_EXPONENT)
    return min(patience.base_seconds * 2.0**exponent, patience.max_seconds)
