"""What all charts over time have in common: their plane, and round ends of both axes. PURE; draws nothing.

Coordinates have the origin at the top left; the unit is that of the SVG's viewBox.
"""

from datetime import datetime, timedelta

WIDTH, HEIGHT = 720.0, 100.0

_NICE = (1, 2, 2.5, 5, 10)
_PARTS = 4


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
