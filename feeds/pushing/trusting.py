"""Whether hubs and clouds are believed to tell of changes: by the news they told of before polling found it. PURE.

What is told counts only where there was news: the call that a registration itself brings proves nothing.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum

ENOUGH = 3
"""So many times in a row news of a feed must have been told of before it is polled less often."""
LEAST_SCORE = 0.8
WEIGHT = 0.1
"""Of the last news, in the score of a hub."""
LATE = timedelta(minutes=10)
"""News that polling has found may still be told of for so long: polling was quick then, and the hub not silent."""

EARLY = timedelta(hours=1)
"""News so soon after a push that seemed to be of nothing is what was told of: its server had it late."""


class Verdict(Enum):
    """What a look at a feed says of whoever should tell of its changes."""

    TOLD = "told"
    MISSED = "missed"
    LATE = "told of what polling had just found"
    VAIN = "told of nothing, so far"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Record:
    """How it went with one feed. `in_a_row` is how often its news was told of since the last that was not.

    `vain_at`: when it was looked at for a push, and nothing had changed.
    """

    told: int = 0
    missed: int = 0
    in_a_row: int = 0
    before_miss: int = 0
    missed_at: datetime | None = None
    vain_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Score:
    """How it went with all feeds of a hub. `share` is what was told of lately, from 0 to 1; 0 before anything was."""

    told: int = 0
    missed: int = 0
    share: float = 0.0


@dataclass(frozen=True, slots=True)
class Look:
    """A feed was looked at. `has_news`: something was there that was not before; or `has_changed` what was there.

    `looked_at` is when it was looked at before this, `pushed_at` when it was last told of, `since` since when the
    subscription holds. None: never.
    """

    at: datetime
    has_news: bool
    looked_at: datetime | None
    pushed_at: datetime | None
    since: datetime | None
    has_changed: bool = False


def verdict(before: Record, look: Look) -> Verdict:
    """What the look shows. Nothing where the news may be older than the subscription."""
    if look.since is None or look.looked_at is None:
        return Verdict.NOTHING
    was_told = look.pushed_at is not None and look.pushed_at > look.looked_at
    was_early = before.vain_at is not None and look.at - before.vain_at <= EARLY
    if look.has_news and (was_told or was_early):
        return Verdict.TOLD
    if look.has_news:
        return Verdict.MISSED if look.since <= look.looked_at else Verdict.NOTHING
    if was_told and before.missed_at and look.pushed_at and look.pushed_at - before.missed_at <= LATE:
        return Verdict.LATE
    return Verdict.VAIN if was_told and not look.has_changed else Verdict.NOTHING


def recorded(before: Record, found: Verdict, now: datetime) -> Record:
    """The record of the feed with this verdict in it. One miss begins the count anew, at once."""
    match found:
        case Verdict.TOLD:
            return replace(before, told=before.told + 1, in_a_row=before.in_a_row + 1, missed_at=None, vain_at=None)
        case Verdict.MISSED:
            return Record(before.told, before.missed + 1, 0, before.in_a_row, now)
        case Verdict.LATE:
            missed = max(before.missed - 1, 0)
            return Record(before.told + 1, missed, before.before_miss + before.in_a_row + 1)
        case Verdict.VAIN:
            return replace(before, vain_at=now)
        case Verdict.NOTHING:
            return before


def scored(before: Score, found: Verdict) -> Score:
    """The score of the hub with this verdict in it."""
    match found:
        case Verdict.TOLD:
            share = before.share + WEIGHT * (1 - before.share) if before.told else 1.0
            return Score(before.told + 1, before.missed, share)
        case Verdict.MISSED:
            return Score(before.told, before.missed + 1, before.share * (1 - WEIGHT))
        case Verdict.LATE:
            share = min(before.share / (1 - WEIGHT), 1.0) if before.told else 1.0
            return Score(before.told + 1, max(before.missed - 1, 0), share)
        case Verdict.VAIN | Verdict.NOTHING:
            return before


def is_trusted(hub: Score) -> bool:
    """Whether it tells of what changes, mostly. Not before its first real push."""
    return hub.told > 0 and hub.share >= LEAST_SCORE


def is_relied_on(feed: Record, hub: Score) -> bool:
    """Whether the feed need not be polled as often as if nobody told of its changes."""
    return feed.in_a_row >= ENOUGH and is_trusted(hub)


def words_of_hub(hub: Score) -> str:
    """How it stands, in a sentence."""
    if not hub.told:
        missed = f" Polling found {_news(hub.missed)} first." if hub.missed else ""
        return f"Not trusted: nothing came from it so far that was news.{missed}"
    counted = f"It told of {_news(hub.told)}, polling found {hub.missed:,} first; of late it told of {hub.share:.0%}."
    return f"{'Trusted.' if is_trusted(hub) else 'Not trusted any more.'} {counted}"


def words_of_feed(feed: Record, hub: Score) -> str:
    """Whether it is polled less often, and why or why not, in a sentence."""
    if not feed.told:
        missed = f", polling found {_news(feed.missed)} first" if feed.missed else ""
        return f"Polled as if there was no subscription: no news of it was told of{missed}."
    counted = f"{_news(feed.told)} told of, {feed.in_a_row:,} in a row, {feed.missed:,} found first by polling"
    if is_relied_on(feed, hub):
        return f"Polled seldom: {counted}."
    if feed.in_a_row < ENOUGH:
        return f"Polled as if there was no subscription, until news is told of {ENOUGH} times in a row: {counted}."
    return f"Polled as if there was no subscription, since other feeds' news does not come: {counted}."


def _news(number: int) -> str:
    return f"{number:,} piece of news" if number == 1 else f"{number:,} pieces of news"
