"""What is answered for a URL that has failed for good. What is tried again by itself is waited for."""

from django.http import HttpResponse

from resources.fetching.outcomes import Failure
from retry import responses

from ..knowing.models import State
from ..knowing.seen import Seen
from ..storing.taking_down import FAILURE as TAKEN_DOWN
from ..writing import telling

AGAIN_SECONDS = 3600
"""Retry-After of what hardly changes by itself."""
GONE = "This file was taken down."

_NOT_THERE = frozenset({404, 410})


def refusal(known: Seen) -> HttpResponse | None:
    """404, 410, 502 or 504; None for what is fetched now, or is there."""
    if known.state is not State.FAILED:
        return None
    if known.failure == TAKEN_DOWN:
        return gone()
    detail = telling.IN_PLACE.get(known.failure, f"The origin: {known.detail.rstrip('.')}.")
    if known.status in _NOT_THERE or known.failure == Failure.EXPIRED.value:
        return responses.problem(404, detail, wait_seconds=AGAIN_SECONDS, keep_seconds=1)
    status = 504 if known.failure == Failure.TOO_SLOW.value else 502
    return responses.problem(status, detail, wait_seconds=AGAIN_SECONDS)


def gone() -> HttpResponse:
    """410, kept for a second: it takes the place of what caches hold. Not 451: why it was taken down is not known."""
    return responses.problem(410, GONE, cache_status="Tarry; fwd=bypass; detail=gone", keep_seconds=1)
