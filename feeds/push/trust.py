"""Decides whether hubs and clouds are trusted: by the share of the news that they announced before polling found it.

A push counts only if there was news: the call caused by a registration itself proves nothing.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum

RELIED_ON_IN_A_ROW = 3
"""The number of pushes with news in a row after which a feed is polled less often."""
MIN_SHARE = 0.8
LATEST_NEWS_WEIGHT = 0.1
LATE_WITHIN = timedelta(minutes=10)
"""The time in which a push may follow news found by polling: then polling was quick, and the hub not silent."""

EARLY_WITHIN = timedelta(hours=1)
"""News this soon after a push without news is that push's news: its server had it late."""


class PushVerdict(Enum):
    """The verdict of a look at a feed on the hub that should tell of its changes."""

    TOLD = "told"
    MISSED = "missed"
    LATE = "told of what polling had just found"
    VAIN = "told of nothing, so far"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class PushRecord:
    """The record of a hub with one feed. `in_a_row` counts the news told of since the last missed one.

    `vain_at` is the time of a look after a push, when nothing had changed.
    """

    arrived: int = 0
    missed: int = 0
    in_a_row: int = 0
    before_miss: int = 0
    missed_at: datetime | None = None
    vain_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class HubScore:
    """The score of a hub over all its feeds. `share` of the recent news was told of, from 0 to 1; 0 before any was."""

    arrived: int = 0
    missed: int = 0
    share: float = 0.0


@dataclass(frozen=True, slots=True)
class FeedLook:
    """A look at a feed. `has_news`: it had a new entry; `has_changed`: a known one had changed.

    `looked_at` is the time of the look before, `pushed_at` of the last push, `since` the start of the subscription.
    None: never.
    """

    at: datetime
    has_news: bool
    looked_at: datetime | None
    pushed_at: datetime | None
    since: datetime | None
    has_changed: bool = False


def judge_look(before: PushRecord, look: FeedLook) -> PushVerdict:
    """Judges a look. NOTHING if the news may be older than the subscription."""
    if look.since is None or look.looked_at is None:
        return PushVerdict.NOTHING
    was_told = look.pushed_at is not None and look.pushed_at > look.looked_at
    was_early = before.vain_at is not None and look.at - before.vain_at <= EARLY_WITHIN
    if look.has_news and (was_told or was_early):
        return PushVerdict.TOLD
    if look.has_news:
        return PushVerdict.MISSED if look.since <= look.looked_at else PushVerdict.NOTHING
    if was_told and before.missed_at and look.pushed_at and look.pushed_at - before.missed_at <= LATE_WITHIN:
        return PushVerdict.LATE
    return PushVerdict.VAIN if was_told and not look.has_changed else PushVerdict.NOTHING


def update_record(before: PushRecord, found: PushVerdict, now: datetime) -> PushRecord:
    """Updates a feed's record by a verdict. One miss restarts the count at once."""
    match found:
        case PushVerdict.TOLD:
            return replace(
                before, arrived=before.arrived + 1, in_a_row=before.in_a_row + 1, missed_at=None, vain_at=None
            )
        case PushVerdict.MISSED:
            return PushRecord(before.arrived, before.missed + 1, 0, before.in_a_row, now)
        case PushVerdict.LATE:
            missed = max(before.missed - 1, 0)
            return PushRecord(before.arrived + 1, missed, before.before_miss + before.in_a_row + 1)
        case PushVerdict.VAIN:
            return replace(before, vain_at=now)
        case PushVerdict.NOTHING:
            return before


def update_score(before: HubScore, found: PushVerdict) -> HubScore:
    match found:
        case PushVerdict.TOLD:
            share = before.share + LATEST_NEWS_WEIGHT * (1 - before.share) if before.arrived else 1.0
            return HubScore(before.arrived + 1, before.missed, share)
        case PushVerdict.MISSED:
            return HubScore(before.arrived, before.missed + 1, before.share * (1 - LATEST_NEWS_WEIGHT))
        case PushVerdict.LATE:
            share = min(before.share / (1 - LATEST_NEWS_WEIGHT), 1.0) if before.arrived else 1.0
            return HubScore(before.arrived + 1, max(before.missed - 1, 0), share)
        case PushVerdict.VAIN | PushVerdict.NOTHING:
            return before


def is_trusted(hub: HubScore) -> bool:
    """Tells whether the hub reports most changes. False before its first push with news."""
    return hub.arrived > 0 and hub.share >= MIN_SHARE


def is_relied_on(feed: PushRecord, hub: HubScore) -> bool:
    """Tells whether the feed may be polled less often than one without a hub."""
    return feed.in_a_row >= RELIED_ON_IN_A_ROW and is_trusted(hub)


def describe_hub_trust(hub: HubScore) -> str:
    if not hub.arrived:
        missed = f" Polling found {_count_updates(hub.missed)} first." if hub.missed else ""
        return f"Not trusted: no update pushed yet.{missed}"
    counted = f"{_count_updates(hub.arrived)} pushed, {hub.missed:,} found first by polling"
    trust = "Trusted." if is_trusted(hub) else "No longer trusted."
    return f"{trust} {counted}; recently {hub.share:.0%} pushed."


def describe_feed_trust(feed: PushRecord, hub: HubScore) -> str:
    """A sentence that tells whether the feed is polled less often, and why or why not."""
    if not feed.arrived:
        missed = f", polling found {_count_updates(feed.missed)} first" if feed.missed else ""
        return f"Polled as usual: no update pushed yet{missed}."
    counted = (
        f"{_count_updates(feed.arrived)} pushed, {feed.in_a_row:,} in a row, {feed.missed:,} found first by polling"
    )
    if is_relied_on(feed, hub):
        return f"Polled less often: {counted}."
    if feed.in_a_row < RELIED_ON_IN_A_ROW:
        return f"Polled as usual until {RELIED_ON_IN_A_ROW} updates in a row are pushed: {counted}."
    return f"Polled as usual, as the hub misses updates of other feeds: {counted}."


def _count_updates(number: int) -> str:
    return f"{number:,} update" if number == 1 else f"{number:,} updates"
