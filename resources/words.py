"""Moments, lengths of time and sizes as people say them. PURE."""

from datetime import datetime, timedelta

from .fetching.queues.explaining import duration

UNITS = ("bytes", "KB", "MB", "GB", "TB")


def size(number: float) -> str:
    """Bytes in words: of what is below a thousand all, of the rest two or three figures."""
    for unit in UNITS:
        if number < 1000 or unit == UNITS[-1]:
            break
        number /= 1000
    if unit == UNITS[0]:
        return f"{number:,.0f} {unit}"
    return f"{number:.{0 if number >= 100 else 1}f} {unit}"


def ago(at: datetime | None, now: datetime) -> str:
    """A moment for people, to its largest unit: lists have little room."""
    if at is None:
        return "never"
    passed = now - at
    length = " ".join(span(abs(passed)).split()[:2])
    return f"in {length}" if passed < timedelta(0) else f"{length} ago"


def span(time: timedelta) -> str:
    return duration(time.total_seconds())
