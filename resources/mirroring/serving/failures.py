"""What is answered for a URL that has given nothing. Does not say what is tried again: what fails for now is."""

from django.http import HttpResponse

from resources.fetching.outcomes import Failure
from retry import responses

from ..keeping.models import State
from ..keeping.seen import Seen

AGAIN_SECONDS = 3600
"""Retry-After of what will hardly change by itself."""

_NOT_THERE = frozenset({404, 410})
_DETAILS = {
    Failure.PERMANENT: "The origin has no such file.",
    Failure.REFUSED: "This is an address that this site does not fetch from.",
    Failure.TOO_BIG: "The file is larger than this site keeps.",
    Failure.EXPIRED: "The signature in its address has run out.",
}


def refusal(known: Seen) -> HttpResponse | None:
    """404 or 502 for what has failed for good; None for what is fetched now, or may be there by now.

    Says nothing of addresses: they may be of a private network.
    """
    if known.state is not State.FAILED:
        return None
    failure = next((one for one in _DETAILS if one.value == known.failure), None)
    if failure is None:
        return None
    is_missing = failure is Failure.EXPIRED or known.status in _NOT_THERE
    status = 404 if is_missing else 502
    return responses.problem(
        status, _DETAILS[failure], wait_seconds=AGAIN_SECONDS, keep_seconds=1 if status == 404 else 0
    )
