"""What is to be fetched, and what limits it: fetches with their hosts and durations, slots, gaps. PURE."""

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True)
class Fetch:
    """One feed that is to be fetched. `seconds` is how long that is expected to take; `key` names the feed.

    `host` is whatever its limits count for. `is_flagged`: it was said to have changed, and comes before the rest.
    """

    key: str
    host: str
    seconds: float
    is_flagged: bool = False


class Gap(Enum):
    """What the gap between two fetches from one host is measured from."""

    START = "start"
    """The start of the one before, as in the domain queues."""
    END = "end"
    """Its end: never two at once."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How many fetches go on at once, in all (`slots`) and from one host (`in_flight`), and how far apart they are."""

    slots: int = 20
    in_flight: int = 1
    gap_seconds: float = 0.0
    gap_from: Gap = Gap.START

    def __post_init__(self) -> None:
        if self.slots < 1 or self.in_flight < 1 or self.gap_seconds < 0:
            raise ValueError("At least one slot and one fetch in flight, and a gap that is not negative.")
        if self.gap_from is Gap.END and self.in_flight > 1:
            raise ValueError("Gaps from the end of a fetch are for one at a time.")

    @property
    def host_limit(self) -> int:
        """How many from one host can go on at once."""
        return min(self.in_flight, self.slots)
