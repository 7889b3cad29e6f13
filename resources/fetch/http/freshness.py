"""Parses times in header fields: dates (RFC 9110, 5.6.7), Retry-After (10.2.3), caching fields (RFC 9111).

PURE: imports neither Django, Celery, Redis nor the network; the time is an argument.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from multidict import MultiMapping

_MONTHS = {
    name: number
    for number, name in enumerate(
        ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), start=1
    )
}
_DATE_DAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_DATE_TIME = r"(?P<h>[0-9]{2}):(?P<m>[0-9]{2}):(?P<s>[0-9]{2})"
_DATE_MONTH = f"(?P<month>{'|'.join(_MONTHS)})"
# HTTP dates are in GMT. Where servers leave that out, or say it otherwise, they mean the same.
_DATE_ZONE = r"(?: (?:GMT|UTC|[+]0000))?"
_DATE_FORMS = tuple(
    re.compile(form, re.ASCII)
    for form in (
        rf"{_DATE_DAY}, (?P<day>[0-9]{{2}}) {_DATE_MONTH} (?P<year>[0-9]{{4}}) {_DATE_TIME}{_DATE_ZONE}",
        rf"[A-Z][a-z]{{5,8}}, (?P<day>[0-9]{{2}})-{_DATE_MONTH}-(?P<short>[0-9]{{2}}) {_DATE_TIME}{_DATE_ZONE}",
        rf"{_DATE_DAY} {_DATE_MONTH} (?P<day>[0-9 ][0-9]) {_DATE_TIME} (?P<year>[0-9]{{4}})",
    )
)


def parse_http_date(value: str, now: float) -> float | None:
    """Returns the date in Unix seconds; None for anything else. `now` decides the century of a year of two digits.

    Django's function of this name refuses two forms that servers send: a leap second, and UTC instead of GMT.
    """
    for form in _DATE_FORMS:
        if match := form.fullmatch(value):
            return _date_to_unix(match.groupdict(), now)
    return None


def _date_to_unix(parts: dict[str, str], now: float) -> float | None:
    year = int(parts["year"]) if parts.get("year") else _full_year(int(parts["short"]), now)
    # A leap second is the next one: datetime has none.
    second, leap = (59, 1) if parts["s"] == "60" else (int(parts["s"]), 0)
    clock = int(parts["h"]), int(parts["m"]), second
    try:
        return datetime(year, _MONTHS[parts["month"]], int(parts["day"]), *clock, tzinfo=UTC).timestamp() + leap
    except ValueError:
        return None


def _full_year(short: int, now: float) -> int:
    """Returns the last year with these two digits that is not more than 50 years ahead (RFC 9110)."""
    this_year = 1970 + int(now // 31_556_952)
    year = this_year - this_year % 100 + short
    return year - 100 if year > this_year + 50 else year


MAX_RETRY_AFTER_SECONDS = 86_400.0
"""The longest wait that is obeyed: a server that says a year means “go away”, or has its units wrong."""

_WAIT_SECONDS = re.compile(r"[0-9]{1,400}(?:\.[0-9]{1,400})?", re.ASCII)


def parse_retry_after(values: Sequence[str], now: float, *, date: float | None = None) -> float | None:
    """Returns the wait in seconds, 0 to MAX_RETRY_AFTER_SECONDS; None without a value that makes sense.

    `values` are the field's lines; the longest of several waits counts, since it satisfies them all. A date is
    compared with the answer's own Date, if it has one, since clocks differ: `date`, as `now`, in Unix seconds.
    A malformed value counts as missing, never as a wait of no time, which only the server may grant.
    """
    since = now if date is None else date
    asked = [found for value in values for found in _parse_waits(value.strip(" \t"), since, now)]
    return min(max(asked), MAX_RETRY_AFTER_SECONDS) if asked else None


def _parse_waits(value: str, since: float, now: float) -> list[float]:
    moment = parse_http_date(value, now)
    if moment is not None:
        return [max(0.0, moment - since)]
    # Proxies join the fields of several answers with commas.
    parts = [part.strip(" \t") for part in value.split(",")]
    if all(_WAIT_SECONDS.fullmatch(part) for part in parts):
        return [float(part) for part in parts]
    return []


MAX_FRESHNESS_SECONDS = 315_360_000.0
"""Ten years. RFC 9111, 1.2.2 has larger numbers mean “as long as can be told”."""
MAX_CACHE_CONTROL_CHARACTERS = 4000

_DIRECTIVE = re.compile(
    r"""
    [ \t,]*
    (?P<name>[!#$%&'*+.^_`|~0-9A-Za-z-]+)
    (?:=(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^\s,;"]*)))?
    [ \t]*(?=,|$)
    """,
    re.ASCII | re.VERBOSE,
)
_DIGITS = re.compile(r"[0-9]+", re.ASCII)
_HEURISTIC_SHARE = 0.1  # of the time since the last change, as RFC 9111, 4.2.2 suggests
_HEURISTIC_MAX_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class Freshness:
    """The caching fields of an answer, parsed. Durations are in seconds, moments in Unix seconds.

    `lifetime_seconds` is the time it is fresh from its creation, None if the answer does not say; `age_seconds` is its
    age on arrival, `received_at`. The two stale permissions are None if they are not given.
    """

    received_at: float = 0.0
    lifetime_seconds: float | None = None
    age_seconds: float = 0.0
    heuristic_seconds: float | None = None
    may_store: bool = True
    must_ask_first: bool = False

    @property
    def fresh_until(self) -> float | None:
        """The moment when it becomes stale, which may be past; None if the answer does not say."""
        if self.must_ask_first or not self.may_store:
            return self.received_at
        if self.lifetime_seconds is None:
            return None
        return self.received_at + self.lifetime_seconds - self.age_seconds

    def fresh_seconds(self, now: float, *, least: float, most: float, otherwise: float) -> float:
        """Returns how long it may be served from `now` on, within the bounds of the server of the copy.

        `otherwise` holds if the answer does not say, and its last change does not suggest a time.
        """
        until = self.fresh_until
        if until is not None:
            left = until - now
        else:
            left = self.heuristic_seconds if self.heuristic_seconds is not None else otherwise
        return min(max(left, least), most)


def parse_freshness(headers: MultiMapping[str], now: float) -> Freshness:
    """Parses the fields, for a shared cache. Contradictions and nonsense count as stale, not as fresh."""
    directives = _parse_directives(headers.getall("Cache-Control", []))
    expires, dates = headers.getall("Expires", []), headers.getall("Date", [])
    date = parse_http_date(dates[0], now) if len(dates) == 1 else None
    made_at = now if date is None else date
    modified = headers.getall("Last-Modified", [])
    return Freshness(
        received_at=now,
        lifetime_seconds=_lifetime_seconds(directives, expires, made_at, now),
        # The greater of the stated age and the age by the dates (RFC 9111, 4.2.3): clocks differ.
        age_seconds=max(_age_seconds(headers.getall("Age", [])), min(now - made_at, MAX_FRESHNESS_SECONDS), 0.0),
        heuristic_seconds=_heuristic_seconds(modified[0], made_at, now) if modified else None,
        may_store="no-store" not in directives,
        must_ask_first="no-cache" in directives and not directives["no-cache"],
    )


def _parse_directives(lines: Sequence[str]) -> dict[str, str | None]:
    """Returns directives by name; of several with one name the smallest, the safe one. Garbage ends the field."""
    found: dict[str, str | None] = {}
    field, place = ",".join(lines)[:MAX_CACHE_CONTROL_CHARACTERS], 0
    while match := _DIRECTIVE.match(field, place):
        name = match["name"].lower()
        value = match["quoted"] if match["quoted"] is not None else match["plain"]
        found[name] = _smaller_seconds(found[name], value) if name in found else value
        place = match.end()
    return found


def _smaller_seconds(one: str | None, other: str | None) -> str | None:
    seconds = [found for value in (one, other) if (found := _parse_delta_seconds(value)) is not None]
    return f"{min(seconds):.0f}" if len(seconds) == 2 else None


def _lifetime_seconds(
    directives: dict[str, str | None], expires: Sequence[str], made_at: float, now: float
) -> float | None:
    for name in ("s-maxage", "max-age"):
        if name in directives:
            return _parse_delta_seconds(directives[name]) or 0.0
    if not expires:
        return None
    moment = parse_http_date(expires[0], now) if len(expires) == 1 else None
    # “Expires: 0” and “-1” are common, and mean that it has expired.
    return 0.0 if moment is None else min(max(0.0, moment - made_at), MAX_FRESHNESS_SECONDS)


def _heuristic_seconds(modified: str, made_at: float, now: float) -> float | None:
    moment = parse_http_date(modified, now)
    if moment is None or moment > made_at:
        return None
    return min((made_at - moment) * _HEURISTIC_SHARE, _HEURISTIC_MAX_SECONDS)


def _age_seconds(values: Sequence[str]) -> float:
    """Returns the first value, as RFC 9111, 5.1 has it; 0 for nonsense."""
    return (_parse_delta_seconds(values[0].split(",")[0].strip(" \t")) or 0.0) if values else 0.0


def _parse_delta_seconds(value: str | None) -> float | None:
    """Returns a number of seconds, however large; None for anything else."""
    if value is None or not _DIGITS.fullmatch(value):
        return None
    return MAX_FRESHNESS_SECONDS if len(value) > 9 else min(float(value), MAX_FRESHNESS_SECONDS)
