"""When a feed is fetched next, and why then. PURE."""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from resources.fetching.outcomes import Failed, Head

from . import cadence, moving, skipping, words
from .standing import Hints, Rules, Standing, State
from .troubles import LADDERS, UNCOUNTED, Trouble, trouble_of

SPREAD = 0.1
"""Feeds that were checked together are not checked together again: times vary by so much of their length."""


@dataclass(frozen=True, slots=True)
class Read:
    """A feed was read. `asks` is what it says itself (ttl, hours and days to skip); `fresh` in it does not count.

    `is_same`: it is the one that was known before, by its entries. Without that no redirect is believed.
    """

    head: Head
    asks: Hints = field(default_factory=Hints)
    is_same: bool = True


@dataclass(frozen=True, slots=True)
class Unchanged:
    """What is known is still right: 304, or the same bytes once more."""

    head: Head


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Something came that is no feed. `why` is a sentence."""

    why: str


Finding = Read | Unchanged | Unreadable | Failed


@dataclass(frozen=True, slots=True)
class Circumstances:
    """When and by what rules it is decided. `now` is aware, in UTC; `luck`, from 0 to 1, spreads feeds over time.

    `is_pushed`: a hub tells of changes; `told_in_vain`: it has just told of one, and nothing was there yet.
    `refused_moves`: addresses that people have taken back.
    """

    now: datetime
    rules: Rules = field(default_factory=Rules)
    luck: float = 0.5
    is_pushed: bool = False
    told_in_vain: bool = False
    refused_moves: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """What is kept of the feed from now on, when it is fetched next, and why then, in sentences.

    `adopts` is the address that is the feed's from now on, None to keep the one it has.
    """

    standing: Standing
    next_check_at: datetime
    reasons: tuple[str, ...]
    adopts: str | None = None

    @property
    def reason(self) -> str:
        return " ".join(self.reasons)


def decide(
    standing: Standing, finding: Finding, published: Collection[datetime], circumstances: Circumstances
) -> Decision:
    """What follows from what was found. `published` is when the last entries were, with those just found.

    The next check is always in the future, and within a week, unless a server asks to be left alone for longer, or
    not to be fetched just then.
    """
    match finding:
        case Failed():
            trouble, wait = trouble_of(finding), timedelta(seconds=finding.retry_after_seconds or 0)
            return _failed(standing, trouble, finding.detail, wait, circumstances)
        case Unreadable(why):
            return _failed(standing, Trouble.UNREADABLE, why, timedelta(0), circumstances)
        case Read(head, asks, is_same):
            hints = replace(asks, fresh=_fresh(head))
            return _well(standing, hints, head.moved_to if is_same else None, published, circumstances)
        case Unchanged(head):
            said = _fresh(head)
            hints = standing.hints if said is None else replace(standing.hints, fresh=said)
            return _well(standing, hints, head.moved_to, published, circumstances)


def _well(
    before: Standing, hints: Hints, moved_to: str | None, published: Collection[datetime], given: Circumstances
) -> Decision:
    moved = moving.watch(before.moving, moved_to, given.now, given.rules, given.refused_moves)
    length, reasons = _interval(hints, published, given)
    at = given.now + length * (1 + SPREAD * given.luck / 2)
    allowed = skipping.first_allowed(at, hints.skip_hours, hints.skip_days)
    if allowed != at:
        reasons.append(f"It asks not to be fetched around {words.moment(at)}: put off until {words.moment(allowed)}.")
        at = allowed + timedelta(minutes=10) * given.luck  # not all at the full hour
    if moved.why:
        reasons.append(moved.why)
    standing = Standing(hints=hints, moving=moved.sighting)
    return Decision(standing, at, tuple(reasons), moved_to if moved.adopts else None)


def _interval(hints: Hints, published: Collection[datetime], given: Circumstances) -> tuple[timedelta, list[str]]:
    """The time to the next check, and what it comes from: first the history, then what is asked, then the bounds."""
    rules, found = given.rules, cadence.interval(published, given.now, given.rules)
    length, reasons = found.length, [found.why]
    if given.is_pushed:
        length, reasons = rules.most, [f"Its hub tells of changes: checked every {words.span(rules.most)} besides."]
    if given.told_in_vain:
        why = f"It was told of, and nothing was there: looked at again in {words.span(rules.least)}."
        length, reasons = rules.least, [why]
    for asked, who in ((hints.fresh, "Its server says that it is fresh for"), (hints.ttl, "It asks to be kept for")):
        if asked is not None and asked > length:
            length = asked
            reasons.append(f"{who} {words.span(asked)}: not checked before.")
    within = min(max(length, rules.least), rules.most)
    if within != length:
        often = "more" if within == rules.least else "less"
        reasons.append(f"It is not checked {often} often than every {words.span(within)}.")
    return within, reasons


def _failed(before: Standing, trouble: Trouble, detail: str, asked: timedelta, given: Circumstances) -> Decision:
    after = _after(before, trouble, given.now)
    reasons = [f"Not fetched: {trouble.value} ({detail})."]
    if trouble not in UNCOUNTED:
        since = words.moment(after.failing_since or given.now)
        reasons.append(f"It has failed {words.times(after.failures)} in a row since {since}.")
    in_a_row = after.held_up if trouble in UNCOUNTED else after.failures
    pause = LADDERS[trouble].pause(in_a_row, given.rules.longest_pause)
    if asked > pause:
        at = given.now + asked + timedelta(minutes=1) * given.luck
        reasons.append(f"Its server asks for {words.span(asked)} without requests: tried again after that.")
    else:
        at = given.now + max(asked, pause * (1 - SPREAD * given.luck))
        reasons.append(f"Tried again after {words.span(pause)}.")
    return Decision(after, at, tuple(reasons))


def _after(before: Standing, trouble: Trouble, now: datetime) -> Standing:
    """A failure that is not the feed's leaves its state as it was, but shows that it is throttled."""
    if trouble in UNCOUNTED:
        is_throttled = trouble is Trouble.THROTTLED and before.state in (State.ACTIVE, State.THROTTLED)
        state = State.THROTTLED if is_throttled else before.state
        return replace(before, state=state, held_up=before.held_up + 1)
    return replace(
        before,
        state=State.GONE if trouble is Trouble.GONE else State.FAILING,
        failures=before.failures + 1,
        failing_since=before.failing_since or now,
        held_up=0,
    )


def _fresh(head: Head) -> timedelta | None:
    """How long the answer may be kept from when it came; None when it does not say."""
    until = head.freshness.fresh_until
    return None if until is None else timedelta(seconds=max(0.0, until - head.received_at))
