"""Which feeds are fetched now: those that were flagged, then those that are due. PURE."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from heapq import nsmallest
from typing import TypeAlias

from .expecting import Expectations
from .fetches import Fetch

_Urgency: TypeAlias = tuple[bool, datetime]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A feed that may be fetched: when it is due, and the mean seconds of its own timings, None without any."""

    key: str
    host: str
    due_at: datetime
    is_flagged: bool = False
    seconds: float | None = None


def choose(candidates: Iterable[Candidate], now: datetime, most: int) -> list[Candidate]:
    """At most so many of those that are flagged or due: the flagged ones, then those that are due for longest.

    Those that are left out are due for longer at the next scan, so that none is left out for ever.
    """
    due = (each for each in candidates if each.is_flagged or each.due_at <= now)
    return nsmallest(most, due, key=_urgency)


def fetches(chosen: Iterable[Candidate], expectations: Expectations) -> list[Fetch]:
    """The same as fetches, each with what is expected of it."""
    return [
        Fetch(each.key, each.host, expectations.seconds(each.host, each.seconds), each.is_flagged) for each in chosen
    ]


def _urgency(candidate: Candidate) -> _Urgency:
    return not candidate.is_flagged, candidate.due_at
