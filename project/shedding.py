"""Refuses at once what has waited for main for so long that nobody has anything of it any more.

Under more load than main can carry, requests wait to be accepted. The front gives each of them up after a while; to
work on those would leave no time for the others, and nobody would be answered.
"""

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from retry import observing

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

MOST_SECONDS = 3.0
"""Of the five that the front waits: what is begun now has two of them left."""
RETRY_SECONDS = 1

_BODY = (
    b'{"type":"about:blank","title":"Service Unavailable","status":503,'
    b'"detail":"Too much is asked of this site just now. Try again later."}'
)
_FIELDS = [
    ("Content-Type", "application/problem+json"),
    ("Content-Length", str(len(_BODY))),
    ("Cache-Control", "no-store"),
    ("Retry-After", str(RETRY_SECONDS)),
    ("Access-Control-Allow-Origin", "*"),
    ("Cache-Status", 'Tarry; fwd=miss; detail="waited too long"'),
]


def shed(application: "WSGIApplication", now: Callable[[], float] = time.time) -> "WSGIApplication":
    """The application, spared GET and HEAD whose X-Front-Since is long ago. What changes something is always done."""

    def answered(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] not in {"GET", "HEAD"} or not _is_late(environ, now()):
            return application(environ, start_response)
        observing.answered("main", "late")
        start_response("503 Service Unavailable", _FIELDS)
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [_BODY]

    return answered


def _is_late(environ: "WSGIEnvironment", now: float) -> bool:
    """By the clock of this machine, which the front's is too. Where nobody tells since when, nothing is late."""
    try:
        return now - float(environ.get("HTTP_X_FRONT_SINCE", "")) > MOST_SECONDS
    except ValueError:
        return False
