"""Figures of a benchmark, some of them with a bound. PURE."""

from dataclasses import dataclass
from math import ceil
from statistics import median

__all__ = ["Figure", "Note", "median", "percentile"]


@dataclass(frozen=True, slots=True)
class Note:
    """A line that is read, not judged: a scaled-down number, the rounds of a median."""

    text: str

    @property
    def missed(self) -> bool:
        return False

    def __str__(self) -> str:
        return f"      {self.text}"


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure. Without a bound it is stated only."""

    name: str
    value: float
    unit: str = ""
    at_most: float | None = None
    at_least: float | None = None

    @property
    def missed(self) -> bool:
        over = self.at_most is not None and self.value > self.at_most
        under = self.at_least is not None and self.value < self.at_least
        return over or under

    def __str__(self) -> str:
        verdict = ("MISS" if self.missed else "PASS") if self._bound else "    "
        return f"{verdict}  {self.name:<74}{readable(self.value):>9} {self.unit:<6}{self._bound}".rstrip()

    @property
    def _bound(self) -> str:
        if self.at_most is not None and self.at_most == self.at_least:
            return f"= {self.at_most:g}"
        if self.at_most is not None:
            return f"≤ {self.at_most:g}"
        return f"≥ {self.at_least:g}" if self.at_least is not None else ""


def readable(value: float) -> str:
    """Three digits that count, and whole numbers whole."""
    if value == int(value) or value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.3f}"


def percentile(values: list[float], share: float) -> float:
    """The smallest value that at least `share` of the values do not exceed."""
    return sorted(values)[max(0, ceil(len(values) * share) - 1)]
