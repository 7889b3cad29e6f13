"""Which feeds a scan takes, by their rows: those that are flagged, then those that are due. With what to expect."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Avg, F, Q, QuerySet

from ..keeping import durations
from ..models import Feed
from ..scheduling.expecting import UNKNOWN_SECONDS, Expectations
from ..scheduling.fetches import Fetch, Limits

IN_HAND = timedelta(minutes=1)
"""When a feed that was handed over is looked at again: its claim may have been lost with Redis' data."""
MOST_LOST = 1000
"""Of those, in one scan: the next one looks at others."""
EVERY = 1_000_000
"""More than there are."""
MOST_NAMES = 500
"""Hosts in one question to the database."""

_READ = ("pk", "url", "host", "expected_seconds", "flagged_at", "handed_over_at", "user", "sealed_password")


@dataclass(frozen=True, slots=True)
class Due:
    """A feed that is to be fetched now. `was_in_hand`: it was handed over before, and has not come back."""

    pk: int
    url: str
    host: str
    seconds: float | None
    is_flagged: bool
    is_private: bool
    was_in_hand: bool

    @property
    def key(self) -> str:
        return str(self.pk)


def due(now: datetime, most: int) -> list[Due]:
    """At most so many, each once: flagged ones first, then those that are due for longest.

    And some that seem lost, which have their places in line already. Raises DatabaseError.
    """
    found = _read(_flagged(now).order_by("flagged_at"), most)
    if len(found) < most:
        others = _due(now).order_by("next_check_at")
        known = {one.pk for one in found}
        found += [one for one in _read(others, most) if one.pk not in known][: most - len(found)]
    known = {one.pk for one in found}
    return found + [one for one in _read(_lost(now).order_by("handed_over_at"), MOST_LOST) if one.pk not in known]


def every() -> list[Due]:
    """All that are not paused, those that are due first. Raises DatabaseError."""
    return _read(Feed.objects.filter(paused=False).order_by("next_check_at"), EVERY)


def took(chosen: Sequence[Due], rounds: int) -> list[dict[str, float]]:
    """How long the last fetch of each really took, by its key; then the one before; up to so many.

    Of what was fetched less often there is nothing in the later rounds. Of a feed without records, its row knows the
    last. There is always one round. Raises DatabaseError.
    """
    records = durations.recorded([one.url for one in chosen], rounds)
    last = dict(Feed.objects.filter(last_seconds__isnull=False).values_list("pk", "last_seconds"))
    known = {
        one.key: records.get(one.url) or [last[one.pk] or 0.0] for one in chosen if one.url in records or one.pk in last
    }
    number = max((len(seconds) for seconds in known.values()), default=1)
    return [{key: seconds[nth] for key, seconds in known.items() if nth < len(seconds)} for nth in range(number)]


def fetches(chosen: Sequence[Due]) -> list[Fetch]:
    """The same as fetches, each with what is expected of it. Raises DatabaseError."""
    expected = _expectations({one.host for one in chosen if one.seconds is None})
    return [Fetch(one.key, one.host, expected.seconds(one.host, one.seconds), one.is_flagged) for one in chosen]


def limits() -> Limits:
    """Those of one fetcher, at hosts of which nothing was learnt."""
    return Limits(settings.FETCH_SLOTS, settings.FETCH_IN_FLIGHT, settings.FETCH_DELAY_SECONDS)


def _flagged(now: datetime) -> QuerySet[Feed]:
    """In hand is no reason to wait, if it was flagged since: it is to come before the rest."""
    not_since = Q(handed_over_at=None) | Q(handed_over_at__lt=F("flagged_at"))
    return Feed.objects.filter(not_since, paused=False, flagged_at__lte=now)


def _due(now: datetime) -> QuerySet[Feed]:
    return Feed.objects.filter(handed_over_at=None, paused=False, next_check_at__lte=now)


def _lost(now: datetime) -> QuerySet[Feed]:
    is_wanted = Q(flagged_at__isnull=False) | Q(next_check_at__lte=now)
    return Feed.objects.filter(is_wanted, handed_over_at__lt=now - IN_HAND, paused=False)


def _read(rows: QuerySet[Feed], most: int) -> list[Due]:
    names = (*_READ, "sealed_headers")
    return [
        Due(pk, url, host, seconds, flagged_at is not None, bool(user or password or headers), handed is not None)
        for pk, url, host, seconds, flagged_at, handed, user, password, headers in rows.values_list(*names)[:most]
    ]


def _expectations(hosts: Collection[str]) -> Expectations:
    """What is expected of feeds without timings, at these hosts."""
    if not hosts:
        return Expectations({})
    known = Feed.objects.filter(expected_seconds__isnull=False)
    names, by_host = sorted(hosts), dict[str, float]()
    for place in range(0, len(names), MOST_NAMES):
        means = (
            known.filter(host__in=names[place : place + MOST_NAMES])
            .values_list("host")
            .annotate(mean=Avg("expected_seconds"))
        )
        by_host.update(means.order_by("host"))
    return Expectations(by_host, _median(known))


def _median(known: QuerySet[Feed]) -> float:
    """Of all feeds that have timings: read off the index."""
    middle = known.order_by("expected_seconds").values_list("expected_seconds", flat=True)
    found = middle[known.count() // 2 :].first()
    return UNKNOWN_SECONDS if found is None else found
