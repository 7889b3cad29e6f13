"""Decides a feed's next check and its state after a fetch, with the reasons in sentences.

The interval follows from the feed's publications, then from the publisher's hints, then from the bounds. Permanent
redirects (301, 308) change a feed's address, but only after they were seen several times over days, each time with
the same feed behind them: a hotel's login page or a server being set up redirects permanently, too. Skipped hours
and days are those of RSS 2.0.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median

from resources import humanize
from resources.fetch.http.messages import FetchFailed, Head

from . import state
from .state import CheckRules, FeedState, FeedStatus, PublisherHints, RedirectSighting, Trouble

MAX_PUBLICATIONS = 20
LOOKS_PER_PUBLICATION = 2
SILENCE_SHARE = 0.1
"""A feed that is silent for longer than usual is checked after this share of its silence."""


@dataclass(frozen=True, slots=True)
class CheckInterval:
    length: timedelta
    why: str


def suggest_interval(published: Iterable[datetime], now: datetime, rules: CheckRules) -> CheckInterval:
    """The interval that the history of publications suggests, without bounds.

    `published` has the entries' dates, or the times when they were first seen. Future dates are left out.
    """
    moments = latest_publications(published, now, rules.least)
    if not moments:
        usually = humanize.format_span(rules.usual)
        return CheckInterval(rules.usual, f"Publishing interval unknown: checked every {usually}.")
    silence = now - moments[0]
    gap = usual_gap(moments)
    by_gap, by_silence = (gap / LOOKS_PER_PUBLICATION if gap else rules.usual), silence * SILENCE_SHARE
    if by_silence > by_gap:
        why = f"Nothing new for {humanize.format_span(silence)}: checked every {humanize.format_span(by_silence)}."
        return CheckInterval(by_silence, why)
    if gap is None:
        return CheckInterval(by_gap, f"Published once so far: checked every {humanize.format_span(by_gap)}.")
    return CheckInterval(by_gap, f"Publishes about every {humanize.format_span(gap)}: checked twice as often.")


def latest_publications(published: Iterable[datetime], now: datetime, least: timedelta) -> list[datetime]:
    """The last publications, newest first. Entries that came within `least` of each other came together."""
    found: list[datetime] = []
    for moment in sorted((moment for moment in published if moment <= now), reverse=True):
        if not found or found[-1] - moment >= least:
            found.append(moment)
        if len(found) == MAX_PUBLICATIONS:
            break
    return found


def usual_gap(newest_first: list[datetime]) -> timedelta | None:
    """The median of the times between publications; None with fewer than two."""
    gaps = [(after - before).total_seconds() for after, before in pairwise(newest_first)]
    return timedelta(seconds=median(gaps)) if gaps else None


_HOUR = timedelta(hours=1)
_WEEK_HOURS = 7 * 24


def first_allowed_moment(at: datetime, skip_hours: Collection[int], skip_days: Collection[int]) -> datetime:
    """The moment itself, or the beginning of the next hour that is not skipped. `at` is in UTC.

    A feed that skips the whole week does not mean it.
    """
    moment = at
    for _ in range(_WEEK_HOURS + 1):
        if moment.hour not in skip_hours and moment.weekday() not in skip_days:
            return moment
        moment = moment.replace(minute=0, second=0, microsecond=0) + _HOUR
    return at


@dataclass(frozen=True, slots=True)
class RedirectVerdict:
    """The sighting of a redirect to remember; `adopts`: its target becomes the feed's address. `why` may be empty."""

    sighting: RedirectSighting | None = None
    adopts: bool = False
    why: str = ""


def watch_redirect(
    before: RedirectSighting | None,
    moved_to: str | None,
    now: datetime,
    rules: CheckRules,
    refused: Collection[str] = (),
) -> RedirectVerdict:
    """Decides by an answer with the same feed as before. `refused` has the targets that people have undone.

    `moved_to` is the target of permanent redirects alone, as of `Head.moved_to`; None ends the sighting.
    """
    if moved_to is None or moved_to in refused:
        return RedirectVerdict()
    seen = _count_sighting(before, moved_to, now, rules)
    if seen.times >= rules.sightings and now - seen.first_at >= rules.moving:
        since = humanize.format_moment(seen.first_at)
        why = f"Moved permanently to {moved_to}, seen {humanize.spell_times(seen.times)} since {since}."
        return RedirectVerdict(None, adopts=True, why=why)
    wanted = f"{humanize.spell_times(rules.sightings)} over {humanize.format_span(rules.moving)}"
    why = f"Redirects permanently to {moved_to}, seen {humanize.spell_times(seen.times)}: adopted when seen {wanted}."
    return RedirectVerdict(seen, why=why)


def _count_sighting(before: RedirectSighting | None, url: str, now: datetime, rules: CheckRules) -> RedirectSighting:
    if before is None or before.url != url:
        return RedirectSighting(url, now, now)
    if now - before.last_at < rules.apart:
        return before
    return replace(before, last_at=now, times=before.times + 1)


CHECK_SPREAD = 0.1
"""The share by which intervals vary: feeds checked together are not checked together again."""


@dataclass(frozen=True, slots=True)
class FeedRead:
    """A feed was read. `asks` has the feed's own hints (ttl, hours and days to skip); `fresh` in it does not count.

    `is_same`: it is the known feed, by its entries. Without that no redirect is trusted.
    """

    head: Head
    asks: PublisherHints = field(default_factory=PublisherHints)
    is_same: bool = True


@dataclass(frozen=True, slots=True)
class FeedUnchanged:
    """The stored feed is still valid: 304, or the same bytes once more."""

    head: Head


@dataclass(frozen=True, slots=True)
class FeedUnreadable:
    """The body is no feed. `why` is a sentence."""

    why: str


FetchFinding = FeedRead | FeedUnchanged | FeedUnreadable | FetchFailed


@dataclass(frozen=True, slots=True)
class CheckCircumstances:
    """The time and rules of a decision. `now` is aware, in UTC; `luck`, from 0 to 1, spreads feeds over time.

    `is_pushed`: a hub tells of changes; `told_in_vain`: it has just told of one, and there was none yet.
    `refused_moves`: addresses whose adoption people have undone.
    """

    now: datetime
    rules: CheckRules = field(default_factory=CheckRules)
    luck: float = 0.5
    is_pushed: bool = False
    told_in_vain: bool = False
    refused_moves: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class CheckDecision:
    """The feed's new state, its next check, and the reasons in sentences.

    `adopts` is the feed's address from now on, None to keep the present one.
    """

    feed_state: FeedState
    next_check_at: datetime
    reasons: tuple[str, ...]
    adopts: str | None = None

    @property
    def reason(self) -> str:
        return " ".join(self.reasons)


def decide_next_check(
    feed_state: FeedState, finding: FetchFinding, published: Collection[datetime], circumstances: CheckCircumstances
) -> CheckDecision:
    """Decides by the finding. `published` has the times of the last entries, with those just found.

    The next check is always in the future, and within a week, unless a server asks for a longer rest, or
    not to be fetched at that hour or day.
    """
    match finding:
        case FetchFailed():
            trouble, wait = state.trouble_of(finding), timedelta(seconds=finding.retry_after_seconds or 0)
            return _decide_after_failure(feed_state, trouble, finding.detail, wait, circumstances)
        case FeedUnreadable(why):
            return _decide_after_failure(feed_state, Trouble.UNREADABLE, why, timedelta(0), circumstances)
        case FeedRead(head, asks, is_same):
            hints = replace(asks, fresh=_fresh_for(head))
            return _decide_after_answer(feed_state, hints, head.moved_to if is_same else None, published, circumstances)
        case FeedUnchanged(head):
            fresh = _fresh_for(head)
            hints = feed_state.hints if fresh is None else replace(feed_state.hints, fresh=fresh)
            return _decide_after_answer(feed_state, hints, head.moved_to, published, circumstances)


def _decide_after_answer(
    before: FeedState,
    hints: PublisherHints,
    moved_to: str | None,
    published: Collection[datetime],
    given: CheckCircumstances,
) -> CheckDecision:
    moved = watch_redirect(before.moving, moved_to, given.now, given.rules, given.refused_moves)
    length, reasons = _bounded_interval(hints, published, given)
    at = given.now + length * (1 + CHECK_SPREAD * given.luck / 2)
    allowed = first_allowed_moment(at, hints.skip_hours, hints.skip_days)
    if allowed != at:
        asked, until = humanize.format_moment(at), humanize.format_moment(allowed)
        reasons.append(f"The feed asks for no requests around {asked}: postponed until {until}.")
        at = allowed + timedelta(minutes=10) * given.luck  # not all at the full hour
    if moved.why:
        reasons.append(moved.why)
    feed_state = FeedState(hints=hints, moving=moved.sighting)
    return CheckDecision(feed_state, at, tuple(reasons), moved_to if moved.adopts else None)


def _bounded_interval(
    hints: PublisherHints, published: Collection[datetime], given: CheckCircumstances
) -> tuple[timedelta, list[str]]:
    """The time to the next check, and its reasons: first the history, then the hints, then the bounds."""
    rules, found = given.rules, suggest_interval(published, given.now, given.rules)
    length, reasons = found.length, [found.why]
    if given.is_pushed:
        why = f"Pushed by its hub: checked only every {humanize.format_span(rules.most)}."
        length, reasons = rules.most, [why]
    if given.told_in_vain:
        why = f"Pushed, but unchanged: checked again in {humanize.format_span(rules.least)}."
        length, reasons = rules.least, [why]
    for asked, who in ((hints.fresh, "The server calls it fresh for"), (hints.ttl, "The feed asks to be cached for")):
        if asked is not None and asked > length:
            length = asked
            reasons.append(f"{who} {humanize.format_span(asked)}: not checked before.")
    within = min(max(length, rules.least), rules.most)
    if within != length:
        bound = "most" if within == rules.least else "least"
        reasons.append(f"Checked at {bound} every {humanize.format_span(within)}.")
    return within, reasons


def _decide_after_failure(
    before: FeedState, trouble: Trouble, detail: str, asked: timedelta, given: CheckCircumstances
) -> CheckDecision:
    after = _state_after_failure(before, trouble, given.now)
    reasons = [f"Not fetched: {trouble.value} ({detail})."]
    if trouble not in state.UNCOUNTED_TROUBLES:
        since = humanize.format_moment(after.failing_since or given.now)
        reasons.append(f"Failed {humanize.spell_times(after.failures)} since {since}.")
    in_a_row = after.held_up if trouble in state.UNCOUNTED_TROUBLES else after.failures
    pause = state.PAUSE_LADDERS[trouble].pause(in_a_row, given.rules.longest_pause)
    if asked > pause:
        at = given.now + asked + timedelta(minutes=1) * given.luck
        reasons.append(f"The server asks for no requests for {humanize.format_span(asked)}: retried after that.")
    else:
        at = given.now + max(asked, pause * (1 - CHECK_SPREAD * given.luck))
        reasons.append(f"Retried after {humanize.format_span(pause)}.")
    return CheckDecision(after, at, tuple(reasons))


def _state_after_failure(before: FeedState, trouble: Trouble, now: datetime) -> FeedState:
    """The state after a failure. One that is not the feed's keeps the status, unless the feed is throttled."""
    if trouble in state.UNCOUNTED_TROUBLES:
        is_throttled = trouble is Trouble.THROTTLED and before.state in (FeedStatus.ACTIVE, FeedStatus.THROTTLED)
        status = FeedStatus.THROTTLED if is_throttled else before.state
        return replace(before, state=status, held_up=before.held_up + 1)
    return replace(
        before,
        state=FeedStatus.GONE if trouble is Trouble.GONE else FeedStatus.FAILING,
        failures=before.failures + 1,
        failing_since=before.failing_since or now,
        held_up=0,
    )


def _fresh_for(head: Head) -> timedelta | None:
    """The time for which the answer is fresh, from its receipt on; None if it does not say."""
    until = head.freshness.fresh_until
    return None if until is None else timedelta(seconds=max(0.0, until - head.received_at))
