"""How long fetches of a feed take, by the records of those that were."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from django.db.models import F, Window
from django.db.models.functions import RowNumber

from resources.fetching.keeping.models import FetchTiming
from resources.fetching.keeping.records import url_digest
from resources.fetching.outcomes import Failed, Failure, Fetched, NotModified

from ..scheduling.expecting import TIMINGS, mean_of_last

_WITHOUT_FEED = (Failure.PERMANENT, Failure.TRANSIENT, Failure.TOO_SLOW)
COMPLETE = (FetchTiming.FETCHED, FetchTiming.NOT_MODIFIED, *(failure.value for failure in _WITHOUT_FEED))
"""Outcomes of fetches that ran until the answer was there, or until their time was over."""


AT_ONCE = 500
"""Addresses in one question to the database."""


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


def recorded(urls: Collection[str], most: int) -> Mapping[str, Sequence[float]]:
    """The seconds of the last complete fetches of each address, at most so many, the latest first.

    Those without any are left out. Raises DatabaseError.
    """
    by_digest = {url_digest(url): url for url in urls}
    digests, found = list(by_digest), defaultdict[str, list[float]](list)
    nth = Window(RowNumber(), partition_by=[F("url_digest")], order_by=F("started_at").desc())
    for place in range(0, len(digests), AT_ONCE):
        rows = FetchTiming.objects.filter(url_digest__in=digests[place : place + AT_ONCE], outcome__in=COMPLETE)
        last = rows.annotate(nth=nth).filter(nth__lte=most).order_by("url_digest", "nth")
        for digest, seconds in last.values_list("url_digest", "seconds"):
            found[by_digest[digest]].append(seconds)
    return found
