"""How long fetches are expected to take, by how long they took before. PURE."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

TIMINGS = 20
"""So many of a feed's last timings count."""
UNKNOWN_SECONDS = 1.0
"""What is expected while nothing at all was fetched yet. Any number does: only the order depends on it."""


def mean_of_last(timings: Sequence[float], most: int = TIMINGS) -> float | None:
    """The mean of a feed's last timings, oldest first, in seconds; None without any.

    They are to be complete: of fetches that ran until an answer was there or their time was over. One that was cut
    off by us, postponed, or never sent says nothing of the feed.
    """
    return fmean(timings[-most:]) if timings else None


@dataclass(frozen=True, slots=True)
class Expectations:
    """What to expect of feeds that were never fetched: the mean of their host's feeds, else the median of all feeds."""

    by_host: Mapping[str, float]
    otherwise: float = UNKNOWN_SECONDS

    def seconds(self, host: str, own: float | None) -> float:
        """What is expected of a feed at that host; `own` is the mean of its own timings, if it has any."""
        return own if own is not None else self.by_host.get(host, self.otherwise)
