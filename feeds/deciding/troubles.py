"""What can go wrong with a feed, and how long it is left alone then. PURE."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum

from resources.fetching.outcomes import Failed, Failure, Obstacle

_DENIED = frozenset({401, 402, 403, 451})
_MOST_DOUBLINGS = 30


class Trouble(Enum):
    """Why there is no feed. The value goes on after “Not fetched:”."""

    LOOKUP = "its host has no address"
    TLS = "no trusted connection to its server"
    CONNECTION = "no connection to its server"
    TIMEOUT = "its server was too slow"
    SERVER = "its server is not well"
    MISSING = "there is nothing at its address"
    GONE = "it is gone for good"
    DENIED = "its server does not give it to us"
    FORBIDDEN = "its address is not one that is fetched"
    TOO_BIG = "it is too big"
    EXPIRED = "its address has run out"
    UNREADABLE = "what came is no feed"
    OTHER = "its server did not answer as it should"
    THROTTLED = "its server asks for fewer requests"
    POSTPONED = "a host on the way to it is left alone for now"
    OURS = "this site could not fetch it"


@dataclass(frozen=True, slots=True)
class Ladder:
    """How long a feed is left alone after so many failures in a row: `first`, then twice as long each time."""

    first: timedelta
    most: timedelta

    def pause(self, failures: int, longest: timedelta) -> timedelta:
        doublings = min(max(failures - 1, 0), _MOST_DOUBLINGS)
        factor: int = 2**doublings
        return min(self.first * factor, self.most, longest)


UNCOUNTED = frozenset({Trouble.THROTTLED, Trouble.POSTPONED, Trouble.OURS})
"""No failures of the feed."""

_WEEK = timedelta(days=7)
LADDERS: Mapping[Trouble, Ladder] = {
    Trouble.CONNECTION: Ladder(timedelta(minutes=15), _WEEK),
    Trouble.SERVER: Ladder(timedelta(minutes=15), _WEEK),
    Trouble.OTHER: Ladder(timedelta(minutes=30), _WEEK),
    Trouble.TIMEOUT: Ladder(timedelta(minutes=30), _WEEK),
    Trouble.LOOKUP: Ladder(timedelta(minutes=30), _WEEK),
    Trouble.UNREADABLE: Ladder(timedelta(minutes=30), _WEEK),
    # A certificate that has run out is renewed by people.
    Trouble.TLS: Ladder(timedelta(hours=1), _WEEK),
    Trouble.MISSING: Ladder(timedelta(hours=1), _WEEK),
    Trouble.DENIED: Ladder(timedelta(hours=2), _WEEK),
    Trouble.TOO_BIG: Ladder(timedelta(hours=6), _WEEK),
    Trouble.FORBIDDEN: Ladder(timedelta(hours=6), _WEEK),
    Trouble.GONE: Ladder(timedelta(days=1), _WEEK),
    Trouble.EXPIRED: Ladder(timedelta(days=1), _WEEK),
    # The domain queues keep to the limit meanwhile, for all of its feeds.
    Trouble.THROTTLED: Ladder(timedelta(minutes=30), timedelta(days=1)),
    Trouble.POSTPONED: Ladder(timedelta(minutes=5), timedelta(hours=6)),
    Trouble.OURS: Ladder(timedelta(minutes=5), timedelta(hours=6)),
}


def trouble_of(failed: Failed) -> Trouble:
    """What a failed fetch means for the feed."""
    if failed.failure in _BY_FAILURE:
        return _BY_FAILURE[failed.failure]
    if failed.obstacle is not None:
        return _BY_OBSTACLE[failed.obstacle]
    match failed.status:
        case 404:
            return Trouble.MISSING
        case 410:
            return Trouble.GONE
        case int(status) if status in _DENIED:
            return Trouble.DENIED
        case int(status) if status >= 500:
            return Trouble.SERVER
    return Trouble.OTHER


_BY_FAILURE: Mapping[Failure, Trouble] = {
    Failure.THROTTLED: Trouble.THROTTLED,
    Failure.POSTPONED: Trouble.POSTPONED,
    Failure.OURS: Trouble.OURS,
    Failure.REFUSED: Trouble.FORBIDDEN,
    Failure.TOO_BIG: Trouble.TOO_BIG,
    Failure.TOO_SLOW: Trouble.TIMEOUT,
    Failure.EXPIRED: Trouble.EXPIRED,
}
_BY_OBSTACLE: Mapping[Obstacle, Trouble] = {
    Obstacle.LOOKUP: Trouble.LOOKUP,
    Obstacle.CONNECTION: Trouble.CONNECTION,
    Obstacle.TLS: Trouble.TLS,
}
