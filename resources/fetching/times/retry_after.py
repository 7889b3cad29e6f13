"""When a server wants to be asked again (RFC 9110, 10.2.3). PURE."""

import re
from collections.abc import Sequence

from . import http_dates

MAX_SECONDS = 86_400.0
"""What is obeyed at the most: a server that says a year means “go away”, or has its units wrong."""

_SECONDS = re.compile(r"[0-9]{1,400}(?:\.[0-9]{1,400})?", re.ASCII)


def seconds(values: Sequence[str], now: float, *, date: float | None = None, most: float = MAX_SECONDS) -> float | None:
    """How long to wait, 0 to `most`; None when nothing that is said makes sense.

    `values` are the field's lines; the longest of several waits counts, since it satisfies them all. A date is
    compared with the answer's own Date, where it has one, since clocks differ: `date`, as `now`, in Unix seconds.
    What is malformed is as good as not said: never a wait of no time, which is for the server alone to grant.
    """
    asked = [found for value in values for found in _read(value.strip(" \t"), now if date is None else date, now)]
    return min(max(asked), most) if asked else None


def _read(value: str, since: float, now: float) -> list[float]:
    moment = http_dates.parse(value, now)
    if moment is not None:
        return [max(0.0, moment - since)]
    # Proxies join the fields of several answers with commas.
    parts = [part.strip(" \t") for part in value.split(",")]
    if all(_SECONDS.fullmatch(part) for part in parts):
        return [float(part) for part in parts]
    return []
