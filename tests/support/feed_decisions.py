"""Answers as the fetcher hands them over."""

from datetime import UTC, datetime, timedelta
from typing import Any

from multidict import CIMultiDict

from feeds.schedule.next_check import (
    CheckCircumstances,
    CheckDecision,
    FeedRead,
    FeedUnchanged,
    FetchFinding,
    decide_next_check,
)
from feeds.schedule.state import FeedState, PublisherHints
from resources.fetch.http.messages import Failure, FetchFailed, Head, Hop, Obstacle, OutcomeTiming

URL = "https://one.example/feed"
NOW = datetime(2026, 11, 4, 12, tzinfo=UTC)
"""A Wednesday."""
MINUTE, HOUR, DAY, WEEK = (timedelta(minutes=1), timedelta(hours=1), timedelta(days=1), timedelta(days=7))
NOTHING, NEW = PublisherHints(), FeedState()


def head(moved_to: str | None = None, *, now: datetime = NOW, status: int = 200, **fields: str) -> Head:
    """An answer's head. Fields as keywords: cache_control="max-age=60"."""
    headers = CIMultiDict({name.replace("_", "-"): value for name, value in fields.items()})
    hops = (Hop(URL, 301),) if moved_to else ()
    return Head(status, moved_to or URL, headers, now.timestamp(), hops)


def read(
    moved_to: str | None = None, *, asks: PublisherHints = NOTHING, is_same: bool = True, **given: Any
) -> FeedRead:
    return FeedRead(head(moved_to, **given), asks, is_same)


def unchanged(moved_to: str | None = None, **given: Any) -> FeedUnchanged:
    return FeedUnchanged(head(moved_to, status=304, **given))


def failed(
    failure: Failure, status: int | None = None, wait: timedelta | None = None, obstacle: Obstacle | None = None
) -> FetchFailed:
    seconds = None if wait is None else wait.total_seconds()
    return FetchFailed(failure, "as it was told", OutcomeTiming(NOW.timestamp(), 1), status, seconds, (), URL, obstacle)


def decided(
    finding: FetchFinding, feed_state: FeedState = NEW, *ago: timedelta, now: datetime = NOW, **given: Any
) -> CheckDecision:
    """The decision now, without luck, for a feed that published so long ago."""
    published = [now - each for each in ago]
    return decide_next_check(feed_state, finding, published, CheckCircumstances(now, **{"luck": 0, **given}))


def wait(decision: CheckDecision, now: datetime = NOW) -> timedelta:
    return decision.next_check_at - now
