"""Main's decision about one feed: what its page is prepared by, if it is not there or out of date. PURE."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from feeds.composing.lacking import Lack, lack

_START = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Standing:
    """What a feed's row says. `fetched_at` is the last time that it was read, `trouble` what the last fetch met."""

    version: int
    paused: bool
    next_check_at: datetime
    checked_at: datetime | None
    fetched_at: datetime | None
    trouble: str


@dataclass(frozen=True, slots=True)
class Render:
    """From what is kept. Pages older than `version` are stale."""

    version: int


@dataclass(frozen=True, slots=True)
class Fetch:
    """From what the publisher says now: pages older than `version` are stale until it was asked.

    `has_entries`: what is kept is good enough to be served meanwhile.
    """

    version: int
    has_entries: bool


@dataclass(frozen=True, slots=True)
class Wait:
    """There is nothing, and the publisher is left alone for now."""

    lack: Lack


def decide(feed: Standing, now: datetime, *, grace: timedelta, stale: timedelta) -> Render | Fetch | Wait:
    """What to do for a page of the feed.

    Scans fetch what is due. Where they do not come, `grace` after its time, whoever reads the feed has it fetched, and
    reads what is kept if that is not more than `stale` out of date.
    """
    late = now - feed.next_check_at
    if feed.paused:
        return Render(feed.version)
    if feed.fetched_at is None:
        if feed.checked_at is not None and late < timedelta(0):
            return Wait(lack(feed.trouble, feed.next_check_at, now))
        return Fetch(_as_version(feed), has_entries=False)
    if late <= grace:
        return Render(feed.version)
    return Fetch(_as_version(feed), has_entries=late <= stale)


def _as_version(feed: Standing) -> int:
    """Newer than all pages that there are, and the same until the feed was fetched."""
    return max(feed.version + 1, (feed.next_check_at - _START) // timedelta(microseconds=1))
