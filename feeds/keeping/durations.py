"""How long fetches of a feed take, by the records of those that were."""

from datetime import datetime

from resources.fetching.keeping.models import FetchTiming
from resources.fetching.keeping.records import url_digest
from resources.fetching.outcomes import Failed, Failure, Fetched, NotModified

from ..scheduling.expecting import TIMINGS, mean_of_last

_WITHOUT_FEED = (Failure.PERMANENT, Failure.TRANSIENT, Failure.TOO_SLOW)
COMPLETE = (FetchTiming.FETCHED, FetchTiming.NOT_MODIFIED, *(failure.value for failure in _WITHOUT_FEED))
"""Outcomes of fetches that ran until the answer was there, or until their time was over."""


def is_complete(outcome: Fetched | NotModified | Failed) -> bool:
    return not isinstance(outcome, Failed) or outcome.failure in _WITHOUT_FEED


def expected_seconds(url: str, outcome: Fetched | NotModified | Failed, began_at: datetime) -> float | None:
    """The mean of the last complete timings, with this one; None without any. Raises DatabaseError."""
    newest = (
        FetchTiming.objects.filter(url_digest=url_digest(url), started_at__lt=began_at, outcome__in=COMPLETE)
        .order_by("-started_at")
        .values_list("seconds", flat=True)[:TIMINGS]
    )
    seconds = list(newest)[::-1]
    return mean_of_last([*seconds, outcome.timing.seconds] if is_complete(outcome) else seconds)
