"""Turns at domains that redirects lead to: whoever asks there takes one, as if a job of that domain had been claimed.

They do not count as in flight there: the job does, where it was queued.
"""

from dataclasses import dataclass
from typing import cast

from retry.connections import Steps

from ..addressing.scopes import scopes
from .calling import call


@dataclass(frozen=True, slots=True)
class Granted:
    """The request may be sent in so long: the turn is kept for it. `is_paced`: it comes as soon as it is allowed."""

    wait_seconds: float
    is_paced: bool = False


@dataclass(frozen=True, slots=True)
class NotNow:
    """Nothing was kept: the domain's next turn is too far away, in so long."""

    wait_seconds: float


def take(url: str, egress: str, most_wait_seconds: float) -> Steps[Granted | NotNow]:
    """A turn at the URL's domain, by that way out. Raises ValueError for a URL without host."""
    reply = cast(list[bytes], (yield call("turn", *_where(url, egress), most_wait_seconds * 1000)))
    how, wait_seconds = reply[0], float(reply[1]) / 1000
    return Granted(wait_seconds, reply[2] == b"1") if how == b"granted" else NotNow(wait_seconds)


def rest(scope: str) -> Steps[float]:
    """For how many seconds from now nothing may be sent to a domain, although a job of it was claimed. 0: it may."""
    return float(cast(bytes, (yield call("rest", scope)))) / 1000


def served(url: str, egress: str, since_turn_seconds: float, *, is_paced: bool) -> Steps[None]:
    """Tells the URL's domain that it answered the request of such a turn, which was taken so long ago."""
    yield call("served", *_where(url, egress), since_turn_seconds * 1000, int(is_paced))


def refused(url: str, egress: str, latency_seconds: float, retry_after_seconds: float) -> Steps[None]:
    """Tells the URL's domain that it refused the request of such a turn."""
    yield call("refused", *_where(url, egress), latency_seconds * 1000, retry_after_seconds * 1000)


def _where(url: str, egress: str) -> tuple[str, str, str, str]:
    names = scopes(url)
    return names.host, names.registrable, names.path, egress
