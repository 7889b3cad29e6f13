"""Finds the feeds of a scan by their rows: flagged ones, then due ones; with their expected durations."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Avg, F, Q, QuerySet, Window
from django.db.models.functions import RowNumber

from resources.fetch.http.messages import Failure, Fetched, FetchFailed, NotModified
from resources.fetch.models import FetchTiming
from resources.fetch.timings import digest_url

from ..models import Feed
from ..schedule.order import PlannedFetch, PoolLimits
from ..schedule.simulation import MAX_COUNTED_TIMINGS, UNKNOWN_FETCH_SECONDS, mean_of_timings

_COMPLETE_FAILURES = (Failure.PERMANENT, Failure.TRANSIENT, Failure.TOO_SLOW)
COMPLETE_OUTCOMES = (FetchTiming.FETCHED, FetchTiming.NOT_MODIFIED, *(failure.value for failure in _COMPLETE_FAILURES))
"""Outcomes of fetches that ran until the answer was complete, or until their time was over."""
ROWS_PER_QUERY = 500


def expect_seconds(url: str, outcome: Fetched | NotModified | FetchFailed, began_at: datetime) -> float | None:
    """Returns the mean of the last complete timings, with this one; None without any. Raises DatabaseError."""
    newest = (
        FetchTiming.objects.filter(url_digest=digest_url(url), started_at__lt=began_at, outcome__in=COMPLETE_OUTCOMES)
        .order_by("-started_at")
        .values_list("seconds", flat=True)[:MAX_COUNTED_TIMINGS]
    )
    seconds = list(newest)[::-1]
    is_complete = not isinstance(outcome, FetchFailed) or outcome.failure in _COMPLETE_FAILURES
    return mean_of_timings([*seconds, outcome.timing.seconds] if is_complete else seconds)


def recorded_durations(urls: Collection[str], most: int) -> Mapping[str, Sequence[float]]:
    """Returns the seconds of each address' last complete fetches, at most so many, the latest first.

    Addresses without any are left out. Raises DatabaseError.
    """
    by_digest = {digest_url(url): url for url in urls}
    digests, found = list(by_digest), defaultdict[str, list[float]](list)
    nth = Window(RowNumber(), partition_by=[F("url_digest")], order_by=F("started_at").desc())
    for place in range(0, len(digests), ROWS_PER_QUERY):
        part = digests[place : place + ROWS_PER_QUERY]
        rows = FetchTiming.objects.filter(url_digest__in=part, outcome__in=COMPLETE_OUTCOMES)
        last = rows.annotate(nth=nth).filter(nth__lte=most).order_by("url_digest", "nth")
        for digest, seconds in last.values_list("url_digest", "seconds"):
            found[by_digest[digest]].append(seconds)
    return found


LOST_AFTER = timedelta(minutes=1)
"""A feed that was handed over is looked at again after this: its claim may have been lost with Redis' data."""
MAX_LOST_FEEDS = 1000
"""Lost feeds in one scan: the next one looks at others."""
ALL_FEEDS_LIMIT = 1_000_000

_DUE_COLUMNS = ("pk", "url", "host", "expected_seconds", "flagged_at", "handed_over_at")


@dataclass(frozen=True, slots=True)
class DueFeed:
    """A feed that is to be fetched now. `was_in_hand`: it was handed over before, and has not come back."""

    pk: int
    url: str
    host: str
    seconds: float | None
    is_flagged: bool
    was_in_hand: bool

    @property
    def key(self) -> str:
        return str(self.pk)


def due_feeds(now: datetime, most: int) -> list[DueFeed]:
    """Returns at most so many feeds, each once: flagged ones first, then those that are due for longest.

    Adds some that seem lost, which have their places in line already. Raises DatabaseError.
    """
    found = _read_due_feeds(_flagged_feeds(now).order_by("flagged_at"), most)
    if len(found) < most:
        others = Feed.objects.filter(handed_over_at=None, paused=False, next_check_at__lte=now)
        found += _read_due_feeds(others.order_by("next_check_at"), most)
        found = _each_once(found)[:most]
    is_wanted = Q(flagged_at__isnull=False) | Q(next_check_at__lte=now)
    lost = Feed.objects.filter(is_wanted, handed_over_at__lt=now - LOST_AFTER, paused=False)
    return _each_once(found + _read_due_feeds(lost.order_by("handed_over_at"), MAX_LOST_FEEDS))


def _each_once(found: Sequence[DueFeed]) -> list[DueFeed]:
    return list({one.pk: one for one in found}.values())


def all_feeds() -> list[DueFeed]:
    """Returns all feeds that are not paused, due ones first. Raises DatabaseError."""
    return _read_due_feeds(Feed.objects.filter(paused=False).order_by("next_check_at"), ALL_FEEDS_LIMIT)


def last_durations(chosen: Sequence[DueFeed], rounds: int) -> list[dict[str, float]]:
    """Returns the seconds of each feed's last fetch by its key; then of the one before; up to so many rounds.

    Feeds with fewer fetches are missing in later rounds; for a feed without records, its row has the last. There is
    always one round. Raises DatabaseError.
    """
    records = recorded_durations([one.url for one in chosen], rounds)
    last = dict(Feed.objects.filter(last_seconds__isnull=False).values_list("pk", "last_seconds"))
    recorded = [one for one in chosen if one.url in records or one.pk in last]
    known = {one.key: records.get(one.url) or [last[one.pk] or 0.0] for one in recorded}
    number = max((len(seconds) for seconds in known.values()), default=1)
    return [{key: seconds[nth] for key, seconds in known.items() if nth < len(seconds)} for nth in range(number)]


def expected_fetches(chosen: Sequence[DueFeed]) -> list[PlannedFetch]:
    """Returns the feeds as fetches, each with its expected seconds. Raises DatabaseError."""
    by_host, otherwise = _expected_seconds({one.host for one in chosen if one.seconds is None})
    seconds = [by_host.get(one.host, otherwise) if one.seconds is None else one.seconds for one in chosen]
    return [PlannedFetch(one.key, one.host, each, one.is_flagged) for one, each in zip(chosen, seconds, strict=True)]


def fetcher_limits() -> PoolLimits:
    """The limits of one fetcher, at hosts without learnt limits."""
    return PoolLimits(settings.FETCH_SLOTS, settings.FETCH_IN_FLIGHT, settings.FETCH_DELAY_SECONDS)


def _flagged_feeds(now: datetime) -> QuerySet[Feed]:
    """A feed that is handed over counts too if it was flagged since: it should come before the rest."""
    not_since = Q(handed_over_at=None) | Q(handed_over_at__lt=F("flagged_at"))
    return Feed.objects.filter(not_since, paused=False, flagged_at__lte=now)


def _read_due_feeds(rows: QuerySet[Feed], most: int) -> list[DueFeed]:
    return [
        DueFeed(pk, url, host, seconds, flagged_at is not None, handed is not None)
        for pk, url, host, seconds, flagged_at, handed in rows.values_list(*_DUE_COLUMNS)[:most]
    ]


def _expected_seconds(hosts: Collection[str]) -> tuple[Mapping[str, float], float]:
    """The seconds of feeds without timings: the mean of their host's feeds; for other hosts the median of all."""
    if not hosts:
        return {}, UNKNOWN_FETCH_SECONDS
    known = Feed.objects.filter(expected_seconds__isnull=False)
    names, by_host = sorted(hosts), dict[str, float]()
    for place in range(0, len(names), ROWS_PER_QUERY):
        hosted = known.filter(host__in=names[place : place + ROWS_PER_QUERY]).order_by("host").values_list("host")
        by_host.update(hosted.annotate(mean=Avg("expected_seconds")))
    in_order = known.order_by("expected_seconds").values_list("expected_seconds", flat=True)
    median = in_order[known.count() // 2 :].first()  # read off the index
    return by_host, UNKNOWN_FETCH_SECONDS if median is None else median
