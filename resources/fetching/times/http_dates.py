"""Dates in header fields (RFC 9110, 5.6.7), read strictly. PURE."""

import re
from calendar import timegm
from datetime import datetime

_MONTHS = {
    name: number
    for number, name in enumerate(
        ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), start=1
    )
}
_DAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_TIME = r"(?P<h>[0-9]{2}):(?P<m>[0-9]{2}):(?P<s>[0-9]{2})"
_MONTH = f"(?P<month>{'|'.join(_MONTHS)})"
# HTTP dates are in GMT. Where servers leave that out, or say it otherwise, they mean the same.
_ZONE = r"(?: (?:GMT|UTC|[+]0000))?"
_FORMS = tuple(
    re.compile(form, re.ASCII)
    for form in (
        rf"{_DAY}, (?P<day>[0-9]{{2}}) {_MONTH} (?P<year>[0-9]{{4}}) {_TIME}{_ZONE}",
        rf"[A-Z][a-z]{{5,8}}, (?P<day>[0-9]{{2}})-{_MONTH}-(?P<short>[0-9]{{2}}) {_TIME}{_ZONE}",
        rf"{_DAY} {_MONTH} (?P<day>[0-9 ][0-9]) {_TIME} (?P<year>[0-9]{{4}})",
    )
)


def parse(value: str, now: float) -> float | None:
    """The date in Unix seconds; None for anything that is not one. `now` says which century two digits are of."""
    for form in _FORMS:
        if match := form.fullmatch(value):
            return _moment(match, now)
    return None


def _moment(match: re.Match[str], now: float) -> float | None:
    parts = match.groupdict()
    year = int(parts["year"]) if parts.get("year") else _full_year(int(parts["short"]), now)
    # A leap second is the next one: datetime has none.
    second, leap = (59, 1) if parts["s"] == "60" else (int(parts["s"]), 0)
    try:
        date = datetime(year, _MONTHS[parts["month"]], int(parts["day"]), int(parts["h"]), int(parts["m"]), second)  # noqa: DTZ001  timegm takes UTC
    except ValueError:
        return None
    return float(timegm(date.timetuple()) + leap)


def _full_year(short: int, now: float) -> int:
    """A year of two digits is the last one that is not more than 50 years ahead (RFC 9110)."""
    this_year = 1970 + int(now // 31_556_952)
    year = this_year - this_year % 100 + short
    return year - 100 if year > this_year + 50 else year
