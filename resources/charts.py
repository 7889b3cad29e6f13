"""What all charts over time have in common: their plane, and round ends of both axes. PURE; draws nothing.

Coordinates have the origin at the top left; the unit is that of the SVG's viewBox.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

WIDTH, HEIGHT = 720.0, 100.0

_NICE = (1, 2, 2.5, 5, 10)
_PARTS = 4
_FILLED = 0.8


@dataclass(frozen=True, slots=True)
class Bar:
    """A rectangle, and what it says to people who point at it. `kind` is what it has its colour by."""

    x: float
    y: float
    width: float
    height: float
    label: str
    kind: str = ""


def standing(place: int, places: int, part: float, label: str, *, kind: str = "", least: float = 1.0) -> Bar:
    """A bar from the bottom up in one of so many places, `part` (0 to 1) of the axis high.

    It is no lower than `least`: something is never drawn as nothing.
    """
    width, height = WIDTH / places, max(least, part * HEIGHT)
    return Bar(
        round(place * width, 2), round(HEIGHT - height, 2), round(width * _FILLED, 2), round(height, 2), label, kind
    )


def reach(now: datetime, length: timedelta, step: timedelta) -> tuple[datetime, datetime]:
    """From when to when a chart of that length reaches: whole steps, the one that `now` lies in included."""
    seconds = step.total_seconds()
    until = datetime.fromtimestamp((now.timestamp() // seconds + 1) * seconds, now.tzinfo)
    return until - length, until


def ticks(since: datetime, length: timedelta) -> tuple[datetime, ...]:
    """The times that are written below a chart, its two ends among them."""
    return tuple(since + part * length / _PARTS for part in range(_PARTS + 1))


def nice_top(most: float) -> float:
    """What an axis reaches up to: the first of 1, 2, 2.5, 5 times a power of ten that is not below. At least 1."""
    power = 1.0
    while power * 10 < most:
        power *= 10
    return next(power * nice for nice in _NICE if power * nice >= most)
