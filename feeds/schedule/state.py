"""The state of a feed from one fetch to the next, the rules of its fetches, its troubles and their pauses."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from resources.fetch.http.messages import Failure, FetchFailed, Obstacle

_MAX_DOUBLINGS = 30


class Trouble(Enum):
    """The reason for a failed fetch. The value continues “Not fetched:”."""

    LOOKUP = "host not found"
    TLS = "no trusted TLS connection"
    CONNECTION = "no connection"
    TIMEOUT = "timeout"
    SERVER = "server error"
    MISSING = "not found"
    GONE = "gone permanently"
    DENIED = "access denied"
    FORBIDDEN = "address not allowed"
    TOO_BIG = "too big"
    EXPIRED = "address expired"
    UNREADABLE = "not a feed"
    OTHER = "invalid response"
    THROTTLED = "too many requests"
    POSTPONED = "redirected to a host on hold"
    OURS = "failure of this site"


@dataclass(frozen=True, slots=True)
class PauseLadder:
    """The pauses after failures in a row: `first`, then twice as long each time, at most `most`."""

    first: timedelta
    most: timedelta

    def pause(self, failures: int, longest: timedelta) -> timedelta:
        return min(self.first * (1 << min(max(failures - 1, 0), _MAX_DOUBLINGS)), self.most, longest)


UNCOUNTED_TROUBLES = frozenset({Trouble.THROTTLED, Trouble.POSTPONED, Trouble.OURS})
"""The troubles that are no failures of the feed."""

_WEEK = timedelta(days=7)
PAUSE_LADDERS: Mapping[Trouble, PauseLadder] = {
    **dict.fromkeys((Trouble.CONNECTION, Trouble.SERVER), PauseLadder(timedelta(minutes=15), _WEEK)),
    **dict.fromkeys((Trouble.OTHER, Trouble.TIMEOUT), PauseLadder(timedelta(minutes=30), _WEEK)),
    **dict.fromkeys((Trouble.LOOKUP, Trouble.UNREADABLE), PauseLadder(timedelta(minutes=30), _WEEK)),
    # A certificate that has run out is renewed by people.
    **dict.fromkeys((Trouble.TLS, Trouble.MISSING), PauseLadder(timedelta(hours=1), _WEEK)),
    Trouble.DENIED: PauseLadder(timedelta(hours=2), _WEEK),
    **dict.fromkeys((Trouble.TOO_BIG, Trouble.FORBIDDEN), PauseLadder(timedelta(hours=6), _WEEK)),
    **dict.fromkeys((Trouble.GONE, Trouble.EXPIRED), PauseLadder(timedelta(days=1), _WEEK)),
    # The frontier keeps to the limit meanwhile, for all of its feeds.
    Trouble.THROTTLED: PauseLadder(timedelta(minutes=30), timedelta(days=1)),
    **dict.fromkeys((Trouble.POSTPONED, Trouble.OURS), PauseLadder(timedelta(minutes=5), timedelta(hours=6))),
}


def trouble_of(failed: FetchFailed) -> Trouble:
    if failed.failure in _TROUBLES:
        return _TROUBLES[failed.failure]
    if failed.obstacle is not None:
        return _TROUBLES[failed.obstacle]
    status = failed.status or 0
    return Trouble.SERVER if status >= 500 else _TROUBLES.get(status, Trouble.OTHER)


_TROUBLES: Mapping[Failure | Obstacle | int, Trouble] = {
    Failure.THROTTLED: Trouble.THROTTLED,
    Failure.POSTPONED: Trouble.POSTPONED,
    Failure.OURS: Trouble.OURS,
    Failure.REFUSED: Trouble.FORBIDDEN,
    Failure.TOO_BIG: Trouble.TOO_BIG,
    Failure.TOO_SLOW: Trouble.TIMEOUT,
    Failure.EXPIRED: Trouble.EXPIRED,
    Obstacle.LOOKUP: Trouble.LOOKUP,
    Obstacle.CONNECTION: Trouble.CONNECTION,
    Obstacle.TLS: Trouble.TLS,
    404: Trouble.MISSING,
    410: Trouble.GONE,
    **dict.fromkeys((401, 402, 403, 451), Trouble.DENIED),
}


class FeedStatus(Enum):
    """The status of a feed. A paused one is not fetched, whatever its status."""

    ACTIVE = "active"
    FAILING = "failing"
    THROTTLED = "throttled"
    """The server asks for a rest. No failure of the feed."""
    GONE = "gone"
    """The server says that it is gone for good (410). Still tried, every week at the least."""


@dataclass(frozen=True, slots=True)
class PublisherHints:
    """The publisher's hints. They hold until another answer says otherwise: a 304 says little.

    `fresh` is by Cache-Control or Expires, `ttl` by the feed itself; None: not given. `skip_hours` are 0 to 23, in
    UTC; `skip_days` 0 for Monday to 6 for Sunday.
    """

    fresh: timedelta | None = None
    ttl: timedelta | None = None
    skip_hours: frozenset[int] = frozenset()
    skip_days: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class RedirectSighting:
    """A permanent redirect, with the number of times it was seen, each with the same feed behind it."""

    url: str
    first_at: datetime
    last_at: datetime
    times: int = 1


@dataclass(frozen=True, slots=True)
class FeedState:
    """The state of a feed. `failures` and `held_up` are counted in a row.

    `held_up` counts fetches throttled, or prevented by troubles of this site, which are not the feed's failures.
    """

    state: FeedStatus = FeedStatus.ACTIVE
    failures: int = 0
    failing_since: datetime | None = None
    held_up: int = 0
    hints: PublisherHints = PublisherHints()
    moving: RedirectSighting | None = None


@dataclass(frozen=True, slots=True)
class CheckRules:
    """The bounds of the time between two fetches; `usual` is for feeds without known publications.

    A permanent redirect is adopted after `sightings` sightings, `apart` from each other, over `moving` at least.
    """

    least: timedelta = timedelta(minutes=15)
    usual: timedelta = timedelta(hours=1)
    most: timedelta = timedelta(days=1)
    longest_pause: timedelta = timedelta(days=7)
    sightings: int = 3
    apart: timedelta = timedelta(hours=1)
    moving: timedelta = timedelta(days=2)

    def __post_init__(self) -> None:
        if not timedelta(0) < self.least <= self.most <= self.longest_pause:
            raise ValueError("The least time between two fetches is above zero, and not above the most.")
        if self.sightings < 1:
            raise ValueError("A redirect is seen once at the least.")
