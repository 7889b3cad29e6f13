"""When a subscription is asked for, asked for again, and given up, and why then. PURE."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum

from ..deciding import words

CLOUD_LEASE = timedelta(hours=25)
"""How long rssCloud's servers remember who registered, by convention."""
LATEST_SHARE = 0.96
"""Of a lease: after that there is time for a second attempt alone."""
LONG_SHARE = 0.8
"""When a lease is renewed that is longer than a cloud's, or too short for the rules."""
SOON = timedelta(minutes=1)
FIRST_PAUSE, LONGEST_PAUSE = timedelta(minutes=10), timedelta(days=1)
FIRST_REST, LONGEST_REST = timedelta(hours=6), timedelta(days=7)
"""After a refusal."""
MOST_FAREWELLS = 5
"""So often a hub is told that nothing is wanted of it any more. It forgets by itself, later."""


class State(Enum):
    """How a subscription stands."""

    WANTED = "wanted"
    """Asked for, or about to be; pushes are not known to come."""
    VERIFIED = "in force"
    DENIED = "denied"
    """The server does not want it. Tried again, seldom."""
    LEAVING = "leaving"
    """To be taken back."""
    ENDED = "ended"


ENDED_STATES = (State.LEAVING.value, State.ENDED.value)
"""Those of subscriptions that nothing is taken from any more."""


@dataclass(frozen=True, slots=True)
class Granted:
    """It is in force from when it was asked for, for so long."""

    lease: timedelta


@dataclass(frozen=True, slots=True)
class Awaited:
    """The request was taken. Whether it is in force will be heard by another way, within so long."""

    within: timedelta


@dataclass(frozen=True, slots=True)
class Refused:
    """The server says no. `why` is a sentence. In so many `ways` it can be asked: it may like another one better."""

    why: str
    ways: int = 1


@dataclass(frozen=True, slots=True)
class Missed:
    """The server was not reached, or not understood. `why` is a sentence.

    `is_open`: it may have taken the request all the same, and verify it later.
    """

    why: str
    is_open: bool = False


Answer = Granted | Awaited | Refused | Missed


@dataclass(frozen=True, slots=True)
class Rules:
    """A registration is renewed when it is so old, and up to `spread` later: not all of them at once."""

    renew_after: timedelta = timedelta(hours=20)
    spread: timedelta = timedelta(hours=4)


@dataclass(frozen=True, slots=True)
class Standing:
    """How a subscription stands: the fields of its row. `due_at` None: nothing is to be done."""

    state: State = State.WANTED
    intent: str = ""
    way: int = 0
    asked_at: datetime | None = None
    verified_at: datetime | None = None
    expires_at: datetime | None = None
    due_at: datetime | None = None
    failures: int = 0
    reason: str = ""
    ended_at: datetime | None = None

    def is_in_force(self, now: datetime) -> bool:
        return self.state is State.VERIFIED and (self.expires_at is None or self.expires_at > now)


def after(before: Standing, answer: Answer, now: datetime, luck: float, rules: Rules) -> Standing:
    """What an answer makes of it. `luck`, from 0 to 1, spreads renewals over time."""
    match answer:
        case Granted(lease):
            return granted(before, lease, luck, rules, before.asked_at or now)
        case Awaited() if before.state is State.LEAVING and before.failures >= MOST_FAREWELLS:
            return ended(before, now, "The server was asked to forget it, and does not verify that.")
        case Awaited(within):
            if before.verified_at is not None and before.asked_at is not None and before.verified_at >= before.asked_at:
                return before  # it was verified before the answer was here
            return _awaited(before, now + min(within * (1 << min(before.failures, 20)), LONGEST_PAUSE))
        case Refused(why) if before.state is State.LEAVING:
            return ended(before, now, f"It cannot be taken back: {why}")
        case Missed(why) if before.state is State.LEAVING and before.failures >= MOST_FAREWELLS:
            return ended(before, now, f"It could not be taken back: {why}")
        case Refused():
            return _refused(before, answer, now, luck)
        case Missed():
            return _missed(before, answer, now, luck)


def granted(before: Standing, lease: timedelta, luck: float, rules: Rules, since: datetime) -> Standing:
    """It is in force for that time, from then on."""
    due_at = since + renewed_after(lease, luck, rules)
    reason = f"In force for {words.span(lease)}, renewed before that: {words.moment(due_at)}."
    fresh = replace(before, state=State.VERIFIED, intent="", failures=0, reason=reason)
    return replace(fresh, verified_at=since, expires_at=since + lease, due_at=due_at)


def ended(before: Standing, now: datetime, why: str) -> Standing:
    """Nothing is taken from it, and nothing is asked for it any more."""
    return replace(before, state=State.ENDED, intent="", due_at=None, ended_at=now, reason=why)


def renewed_after(lease: timedelta, luck: float, rules: Rules) -> timedelta:
    """How old a registration becomes before it is renewed: by the rules, as far as the lease allows that."""
    earliest = rules.renew_after if lease <= CLOUD_LEASE else max(rules.renew_after, LONG_SHARE * lease)
    if earliest > (LONG_SHARE + LATEST_SHARE) / 2 * lease:
        earliest = LONG_SHARE * lease
    return earliest + min(rules.spread, LATEST_SHARE * lease - earliest) * luck


def _awaited(before: Standing, until: datetime) -> Standing:
    """Each time that nothing is heard counts as a failure."""
    reason = f"Asked for. Asked again if the server does not verify it until {words.moment(until)}."
    return replace(before, failures=before.failures + 1, due_at=until, reason=reason)


def _refused(before: Standing, refused: Refused, now: datetime, luck: float) -> Standing:
    """Each other way is tried soon, once."""
    failures = before.failures + 1
    pause = SOON if failures < refused.ways else _pause(FIRST_REST, LONGEST_REST, failures - refused.ways)
    state = before.state if before.is_in_force(now) else State.DENIED
    other = " in another way" if refused.ways > 1 else ""
    reason = f"Refused: {refused.why} Asked again{other} after {words.span(pause)}."
    stands = replace(before, state=state, intent="", way=(before.way + 1) % refused.ways, failures=failures)
    return replace(stands, due_at=now + pause * (1 - luck / 10), reason=reason)


def _missed(before: Standing, missed: Missed, now: datetime, luck: float) -> Standing:
    pause = _pause(FIRST_PAUSE, LONGEST_PAUSE, before.failures)
    state = before.state if before.state is not State.VERIFIED or before.is_in_force(now) else State.WANTED
    reason = f"Not asked for: {missed.why} Tried again after {words.span(pause)}."
    stands = replace(before, state=state, failures=before.failures + 1, reason=reason)
    return replace(stands, intent=before.intent if missed.is_open else "", due_at=now + pause * (1 - luck / 10))


def _pause(first: timedelta, longest: timedelta, failures: int) -> timedelta:
    return min(first * (1 << min(failures, 20)), longest)
