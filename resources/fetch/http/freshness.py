"""How long an answer stays fresh, by its caching fields (RFC 9111). PURE."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from multidict import MultiMapping

from . import http_dates

MAX_SECONDS = 315_360_000.0
"""Ten years. RFC 9111, 1.2.2 has larger numbers mean “as long as can be told”."""
MAX_FIELD_CHARACTERS = 4000

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
    """What an answer says of its own keeping, read once. Times are in seconds, moments in Unix seconds.

    `lifetime_seconds` is how long it is fresh from when it was made, None when it does not say; `age_seconds`
    how old it was on arrival, `received_at`. The last three permissions are None when they are not given.
    """

    received_at: float = 0.0
    lifetime_seconds: float | None = None
    age_seconds: float = 0.0
    heuristic_seconds: float | None = None
    may_store: bool = True
    must_ask_first: bool = False
    must_revalidate: bool = False
    is_private: bool = False
    is_immutable: bool = False
    stale_while_revalidate_seconds: float | None = None
    stale_if_error_seconds: float | None = None

    @property
    def fresh_until(self) -> float | None:
        """The moment when it becomes stale, which may be past; None when the answer does not say."""
        if self.must_ask_first or not self.may_store:
            return self.received_at
        if self.lifetime_seconds is None:
            return None
        return self.received_at + self.lifetime_seconds - self.age_seconds

    def fresh_seconds(self, now: float, *, least: float, most: float, otherwise: float) -> float:
        """How long it may be served from `now` on, within bounds of whoever serves it.

        `otherwise` stands for what the answer does not say, and its last change does not suggest.
        """
        until = self.fresh_until
        if until is not None:
            left = until - now
        else:
            left = self.heuristic_seconds if self.heuristic_seconds is not None else otherwise
        return min(max(left, least), most)


def parse(headers: MultiMapping[str], now: float) -> Freshness:
    """What the fields say, for a shared cache. Contradictions and nonsense count as stale, not as fresh."""
    directives = _directives(headers.getall("Cache-Control", []))
    expires, dates = headers.getall("Expires", []), headers.getall("Date", [])
    date = http_dates.parse(dates[0], now) if len(dates) == 1 else None
    made_at = now if date is None else date
    modified = headers.getall("Last-Modified", [])
    return Freshness(
        received_at=now,
        lifetime_seconds=_lifetime(directives, expires, made_at, now),
        # The greater of what is said and what the dates show (RFC 9111, 4.2.3): clocks differ.
        age_seconds=max(_age(headers.getall("Age", [])), min(now - made_at, MAX_SECONDS), 0.0),
        heuristic_seconds=_heuristic(modified[0], made_at, now) if modified else None,
        may_store="no-store" not in directives,
        must_ask_first="no-cache" in directives and not directives["no-cache"],
        must_revalidate="must-revalidate" in directives or "proxy-revalidate" in directives,
        is_private="private" in directives,
        is_immutable="immutable" in directives,
        stale_while_revalidate_seconds=_seconds(directives.get("stale-while-revalidate")),
        stale_if_error_seconds=_seconds(directives.get("stale-if-error")),
    )


def _directives(lines: Sequence[str]) -> dict[str, str | None]:
    """Directives by name; of several of one name the smallest, which is the safe one. Garbage ends the field."""
    found: dict[str, str | None] = {}
    field, place = ",".join(lines)[:MAX_FIELD_CHARACTERS], 0
    while match := _DIRECTIVE.match(field, place):
        name = match["name"].lower()
        value = match["quoted"] if match["quoted"] is not None else match["plain"]
        found[name] = _smaller(found[name], value) if name in found else value
        place = match.end()
    return found


def _smaller(one: str | None, other: str | None) -> str | None:
    seconds = [found for value in (one, other) if (found := _seconds(value)) is not None]
    return f"{min(seconds):.0f}" if len(seconds) == 2 else None


def _lifetime(directives: dict[str, str | None], expires: Sequence[str], made_at: float, now: float) -> float | None:
    for name in ("s-maxage", "max-age"):
        if name in directives:
            return _seconds(directives[name]) or 0.0
    if not expires:
        return None
    moment = http_dates.parse(expires[0], now) if len(expires) == 1 else None
    # “Expires: 0” and “-1” are common, and mean that it has expired.
    return 0.0 if moment is None else min(max(0.0, moment - made_at), MAX_SECONDS)


def _heuristic(modified: str, made_at: float, now: float) -> float | None:
    moment = http_dates.parse(modified, now)
    if moment is None or moment > made_at:
        return None
    return min((made_at - moment) * _HEURISTIC_SHARE, _HEURISTIC_MAX_SECONDS)


def _age(values: Sequence[str]) -> float:
    """The first value, as RFC 9111, 5.1 has it; 0 for nonsense."""
    return (_seconds(values[0].split(",")[0].strip(" \t")) or 0.0) if values else 0.0


def _seconds(value: str | None) -> float | None:
    """A number of seconds, however large; None for anything else."""
    if value is None or not _DIGITS.fullmatch(value):
        return None
    return MAX_SECONDS if len(value) > 9 else min(float(value), MAX_SECONDS)
