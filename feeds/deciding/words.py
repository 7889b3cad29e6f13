"""Times as people say them. PURE."""

from datetime import datetime, timedelta

from resources.fetching.queues import explaining


def span(length: timedelta) -> str:
    """A length of time, in two units at the most."""
    return explaining.duration(length.total_seconds())


def moment(at: datetime) -> str:
    return f"{at:%-d %B %Y, %H:%M} UTC"


def times(number: int) -> str:
    """How often: once, twice, 3 times."""
    return {1: "once", 2: "twice"}.get(number, f"{number:,} times")
