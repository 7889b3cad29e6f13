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
    """The request may be sent in so long: the turn is kept for it."""

    wait_seconds: float


@dataclass(frozen=True, slots=True)
class NotNow:
    """Nothing was kept: the domain's next turn is too far away, in so long."""

    wait_seconds: float


def take(url: str, egress: str, most_wait_seconds: float) -> Steps[Granted | NotNow]:
    """A turn at the URL's domain, by that way out. Raises ValueError for a URL without host."""
    how, wait_ms = cast(list[bytes], (yield call("turn", *_where(url, egress), most_wait_seconds * 1000)))
    return (Granted if how == b"granted" else NotNow)(float(wait_ms) / 1000)


def refused(url: str, egress: str, latency_seconds: float, retry_after_seconds: float) -> Steps[None]:
    """Tells the URL's domain that it refused the request of such a turn."""
    yield call("refused", *_where(url, egress), latency_seconds * 1000, retry_after_seconds * 1000)


def _where(url: str, egress: str) -> tuple[str, str, str, str]:
    names = scopes(url)
    return names.host, names.registrable, names.path, egress
