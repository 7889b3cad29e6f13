"""A chart of a feed's last fetches, how long each took and how it ended: shapes for an SVG, and its table. PURE."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from resources import words
from resources.charts import Bar, nice_top, standing

MOST = 60
"""Fetches in a chart. Each has as much room as one of so many, however few there are."""

NEW, SAME, FAILED = "new", "same", "failed"
NAMED = {NEW: "brought a body", SAME: "not modified", FAILED: "failed"}
_KINDS = {"fetched": NEW, "dropped": NEW, "not modified": SAME}


@dataclass(frozen=True, slots=True)
class Fetched:
    """One fetch: when it began, how long it took, what came of it."""

    at: datetime
    seconds: float
    size: int
    outcome: str
    status: int | None

    @property
    def kind(self) -> str:
        return _KINDS.get(self.outcome, FAILED)

    @property
    def said(self) -> str:
        return self.outcome + ("" if self.status is None else f" ({self.status})")


@dataclass(frozen=True, slots=True)
class Chart:
    """`top`, in seconds, is what the axis reaches up to. Bars go from the oldest to the latest, rows the other way."""

    top: float
    bars: tuple[Bar, ...]
    rows: tuple[Fetched, ...]
    summary: str

    @property
    def reach(self) -> str:
        return f"{self.top:g} s"

    @property
    def ends(self) -> tuple[datetime, datetime] | None:
        return (self.rows[-1].at, self.rows[0].at) if self.rows else None


def chart(fetches: Sequence[Fetched]) -> Chart:
    """The chart of fetches, the latest first."""
    rows = tuple(fetches[:MOST])
    top = _top(max((one.seconds for one in rows), default=0))
    return Chart(top, tuple(_bars(rows, top)), rows, _summary(rows))


def _top(most: float) -> float:
    """As of any chart, but in milliseconds: most fetches take less than a second."""
    return nice_top(most * 1000) / 1000


def _bars(rows: Sequence[Fetched], top: float) -> Iterator[Bar]:
    left = MOST - len(rows)
    for index, one in enumerate(reversed(rows)):
        label = f"{one.at:%-d %b %H:%M} UTC: {one.said}, {one.seconds:.2f} s, {words.size(one.size)}"
        yield standing(left + index, MOST, one.seconds / top, label, kind=one.kind, least=2.0)


def _summary(rows: Sequence[Fetched]) -> str:
    if not rows:
        return "It was not fetched lately."
    counts = {kind: sum(one.kind == kind for one in rows) for kind in NAMED}
    parts = ", ".join(f"{number} {NAMED[kind]}" for kind, number in counts.items() if number)
    mean = sum(one.seconds for one in rows) / len(rows)
    which = "The only fetch that is known" if len(rows) == 1 else f"The last {len(rows)} fetches"
    return f"{which}: {parts}; {mean:.2f} s on average, {words.size(sum(one.size for one in rows))} in all."
