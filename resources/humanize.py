"""Formats moments, durations and sizes for people.

PURE: imports neither Django, Celery, Redis nor the network; the time is an argument.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

SIZE_UNITS = ("bytes", "KB", "MB", "GB", "TB")
DURATION_UNITS = ((86_400, "d", "day"), (3600, "h", "hour"), (60, "min", "minute"), (1, "s", "second"))


def format_size(number: float) -> str:
    """Formats a size: below a thousand bytes exactly, else in two or three figures."""
    for unit in SIZE_UNITS:
        if number < 1000 or unit == SIZE_UNITS[-1]:
            break
        number /= 1000
    if unit == SIZE_UNITS[0]:
        return f"{number:,.0f} {unit}"
    return f"{number:.{0 if number >= 100 else 1}f} {unit}"


def format_duration(seconds: float) -> str:
    """Formats a duration in two units at the most: `0.3 s`, `59 s`, `1 min 1 s`, `1 d 1 h`."""
    if seconds < 10:
        return f"{max(0.0, seconds):.1f} s"
    return " ".join(f"{count} {short}" for count, short, _ in _split_duration(seconds))


def spell_duration(seconds: float) -> str:
    """Formats a duration in at most two units, written out: `1 day`, `1 hour 30 minutes`, `2.5 seconds`."""
    if seconds < 60:
        return _spell_count(f"{seconds:g}", "second")
    return " ".join(_spell_count(f"{count:,}", name) for count, _, name in _split_duration(seconds))


def estimate_duration(seconds: float) -> str:
    """Formats a duration that is only roughly known: `20 ms`, `38 s`, `12 min`, `3.4 h`, `2.1 days`."""
    if 0 < seconds < 0.1:
        return f"{seconds * 1000:.0f} ms"
    for limit, size, unit in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{seconds / size:.{0 if size < 3600 and seconds >= 10 else 1}f} {unit}"
    return f"{seconds / 86_400:.1f} days"


def format_span(time: timedelta) -> str:
    return format_duration(time.total_seconds())


def format_ago(at: datetime | None, now: datetime) -> str:
    """Formats a moment relative to now, in its largest unit: lists have little room."""
    if at is None:
        return "never"
    passed = now - at
    length = " ".join(format_span(abs(passed)).split()[:2])
    return f"in {length}" if passed < timedelta(0) else f"{length} ago"


def format_moment(at: datetime, *, has_seconds: bool = False) -> str:
    """Formats a moment in UTC, to the minute or the second."""
    return f"{at.astimezone(UTC):{'%-d %B %Y, %H:%M:%S' if has_seconds else '%-d %B %Y, %H:%M'}} UTC"


def spell_times(number: int) -> str:
    """Formats a number of times: once, twice, 3 times."""
    return {1: "once", 2: "twice"}.get(number, f"{number:,} times")


def _split_duration(seconds: float) -> Iterator[tuple[int, str, str]]:
    """Yields the largest unit and, if anything is left for it, the next smaller one: count, short and long name."""
    left = round(seconds)
    first = next(place for place, (size, _, _) in enumerate(DURATION_UNITS) if left >= size)
    for size, short, name in DURATION_UNITS[first : first + 2]:
        count, left = divmod(left, size)
        if count:
            yield count, short, name


def _spell_count(count: str, unit: str) -> str:
    return f"{count} {unit}" if count == "1" else f"{count} {unit}s"
