"""Dates as feeds write them: RFC 822, W3CDTF, and what publishers take for them. PURE."""

import calendar
import re
from datetime import UTC, datetime, timedelta, timezone

from feedparser import datetimes

_MAX_CHARACTERS = 100
_EARLIEST = datetime(1990, 1, 1, tzinfo=UTC)
"""Before feeds, and before the web: a date of zeros, or of 1970, is a mistake."""
_MONTHS = {name.lower(): number for number, name in enumerate(calendar.month_abbr) if name}
_ZONES = {
    **dict.fromkeys(("", "z", "ut", "utc", "gmt", "wet"), 0),
    **{"ast": -4, "adt": -3, "est": -5, "edt": -4, "cst": -6, "cdt": -5, "mst": -7, "mdt": -6, "pst": -8, "pdt": -7},
    **{"bst": 1, "cet": 1, "west": 1, "cest": 2, "mez": 1, "mesz": 2, "eet": 2, "eest": 3, "msk": 3, "jst": 9},
}
_RFC822 = re.compile(
    r"""(?:[^\s\d,]{2,12}\s*,?\s*)?
    (?P<day>\d{1,2})[\s-]+(?P<month>[A-Za-z]{3})[a-z]{0,6}\.?,?[\s-]+(?P<year>\d{4}|\d\d)
    (?:,?\s+(?P<hour>\d{1,2}):(?P<minute>\d{1,2})(?::(?P<second>\d{1,2})(?:\.\d{1,9})?)?)?
    \s*(?P<zone>(?:GMT|UTC|UT)?[+-]\d{1,2}:?\d\d|[A-Za-z]{0,5})(?:\s*\([^)]{0,30}\))?""",
    re.VERBOSE | re.ASCII,
)
_ISO = re.compile(
    r"""(?P<year>\d{4})(?:-?(?P<month>\d\d)(?:-?(?P<day>\d\d)
    (?:[Tt\s]\s*(?P<hour>\d\d)(?::?(?P<minute>\d\d)(?::?(?P<second>\d\d)(?:[.,](?P<fraction>\d{1,12}))?)?)?
    \s*(?P<zone>[Zz]|UTC|GMT|[+-]\d\d(?::?\d\d)?)?)?)?)?""",
    re.VERBOSE | re.ASCII,
)


def parse(text: str) -> datetime | None:
    """The moment that a text names, None for what is no date. Without a zone it is taken for UTC."""
    text = text.strip()
    if not text or len(text) > _MAX_CHARACTERS:
        return None
    match = _RFC822.fullmatch(text) or _ISO.fullmatch(text)
    try:
        moment = _assembled(match.groupdict()) if match else _unusual(text)
    except (ValueError, OverflowError):
        return None
    return moment if moment is not None and moment >= _EARLIEST else None


def _assembled(parts: dict[str, str | None]) -> datetime:
    month = parts["month"] or "1"
    hour, second = int(parts["hour"] or 0), int(parts["second"] or 0)
    moment = datetime(
        _year(parts["year"] or ""),
        int(month) if month.isdigit() else _MONTHS.get(month.lower(), 0),  # 0 is refused
        int(parts["day"] or 1),
        0 if hour == 24 else hour,
        int(parts["minute"] or 0),
        min(second, 59),  # leap seconds
        int((parts.get("fraction") or "").ljust(6, "0")[:6]),
        tzinfo=_zone((parts["zone"] or "").lower()),
    )
    return (moment + timedelta(days=hour == 24)).astimezone(UTC)


def _year(digits: str) -> int:
    if len(digits) == 4:
        return int(digits)
    return int(digits) + (1900 if int(digits) >= 90 else 2000)


def _zone(text: str) -> timezone:
    offset = text.removeprefix("gmt").removeprefix("utc").removeprefix("ut") if text[-1:].isdigit() else text
    if offset[:1] not in ("+", "-"):
        return timezone(timedelta(hours=_ZONES.get(offset, 0)))
    digits = offset[1:].replace(":", "")
    hours, minutes = (int(digits[:-2] or 0), int(digits[-2:])) if len(digits) > 2 else (int(digits), 0)
    return timezone((-1 if offset[0] == "-" else 1) * timedelta(hours=hours, minutes=minutes))


def _unusual(text: str) -> datetime | None:
    """Other orders and other languages, as far as feedparser knows them (it has no public name for this)."""
    found: tuple[int, ...] | None = datetimes._parse_date(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = found[:6]
    return datetime(year, month, day, hour, minute, min(second, 59), tzinfo=UTC)
