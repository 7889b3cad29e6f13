"""Hours and days at which a feed asks not to be fetched (RSS 2.0, skipHours and skipDays). PURE."""

from collections.abc import Collection
from datetime import datetime, timedelta

_HOUR = timedelta(hours=1)
_WEEK_HOURS = 7 * 24


def first_allowed(at: datetime, skip_hours: Collection[int], skip_days: Collection[int]) -> datetime:
    """The moment itself, or the beginning of the next hour that is not left out. `at` is in UTC.

    A feed that leaves out the whole week does not mean it.
    """
    moment = at
    for _ in range(_WEEK_HOURS + 1):
        if moment.hour not in skip_hours and moment.weekday() not in skip_days:
            return moment
        moment = moment.replace(minute=0, second=0, microsecond=0) + _HOUR
    return at
