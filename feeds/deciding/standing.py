"""What is known of a feed from one fetch to the next, and the rules by which it is fetched. PURE: values only."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum


class State(Enum):
    """How a feed is. A paused one is not fetched, whatever its state."""

    ACTIVE = "active"
    FAILING = "failing"
    THROTTLED = "throttled"
    """Asked to be left alone for a while. No failure of the feed."""
    GONE = "gone"
    """Said to be gone for good (410). Still tried, every week at the least."""


@dataclass(frozen=True, slots=True)
class Hints:
    """What the publisher asks for. Holds until another answer says otherwise: a 304 says little.

    `fresh` is by Cache-Control or Expires, `ttl` by the feed itself; None: not said. `skip_hours` are those of UTC,
    0 to 23; `skip_days` 0 for Monday to 6 for Sunday.
    """

    fresh: timedelta | None = None
    ttl: timedelta | None = None
    skip_hours: frozenset[int] = frozenset()
    skip_days: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Sighting:
    """A permanent redirect that was seen, how often, and with it the same feed each time."""

    url: str
    first_at: datetime
    last_at: datetime
    times: int = 1


@dataclass(frozen=True, slots=True)
class Standing:
    """How a feed stands. `failures` and `held_up` are counted in a row.

    `held_up`: throttled, or kept by troubles of our own, which are not the feed's failures.
    """

    state: State = State.ACTIVE
    failures: int = 0
    failing_since: datetime | None = None
    held_up: int = 0
    hints: Hints = Hints()
    moving: Sighting | None = None


@dataclass(frozen=True, slots=True)
class Rules:
    """Bounds of the time between two fetches; `usual` is for feeds that say nothing of when they publish.

    A permanent redirect is adopted when it was seen `sightings` times, `apart` from each other, over `moving` at least.
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
