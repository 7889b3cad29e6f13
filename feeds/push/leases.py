"""Decides when a subscription is requested, renewed and given up, here and for others, with the reason in words."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum

from resources import humanize

CLOUD_LEASE = timedelta(hours=25)
"""The time for which rssCloud's servers remember a registration, by convention."""
LATEST_RENEWAL_SHARE = 0.96
"""The share of a lease after which there is only time for a second attempt."""
LONG_LEASE_SHARE = 0.8
"""The share of a lease after which it is renewed if it is longer than a cloud's, or too short for the rules."""
OTHER_WAY_PAUSE = timedelta(minutes=1)
FIRST_PAUSE, LONGEST_PAUSE = timedelta(minutes=10), timedelta(days=1)
FIRST_REST, LONGEST_REST = timedelta(hours=6), timedelta(days=7)
MAX_FAREWELLS = 5
"""The number of times that a hub is told of the end of a subscription. Later it forgets by itself."""


class SubscriptionStatus(Enum):
    WANTED = "wanted"
    """Requested, or about to be; it is not known whether pushes come."""
    VERIFIED = "in force"
    DENIED = "denied"
    """Refused by the server. Tried again, seldom."""
    LEAVING = "leaving"
    """About to be taken back at the hub."""
    ENDED = "ended"


ENDED_STATES = (SubscriptionStatus.LEAVING.value, SubscriptionStatus.ENDED.value)
"""The statuses in which pushes are no longer taken."""


@dataclass(frozen=True, slots=True)
class LeaseGranted:
    """The subscription is in force for the lease, from the request on."""

    lease: timedelta


@dataclass(frozen=True, slots=True)
class VerificationAwaited:
    """The request was taken. The server verifies it by a call of its own, within this time."""

    within: timedelta


@dataclass(frozen=True, slots=True)
class RequestRefused:
    """The server refused. `why` is a sentence. It can be asked in `ways` ways, and may accept another one."""

    why: str
    ways: int = 1


@dataclass(frozen=True, slots=True)
class RequestMissed:
    """The server was not reached, or not understood. `why` is a sentence.

    `is_open`: it may have taken the request nevertheless, and verify it later.
    """

    why: str
    is_open: bool = False


PushAnswer = LeaseGranted | VerificationAwaited | RequestRefused | RequestMissed


@dataclass(frozen=True, slots=True)
class RenewalRules:
    """The age at which a registration is renewed, or up to `spread` later: not all of them at once."""

    renew_after: timedelta = timedelta(hours=20)
    spread: timedelta = timedelta(hours=4)


@dataclass(frozen=True, slots=True)
class SubscriptionState:
    """The state of a subscription: the fields of its row. `due_at` is None if there is nothing to do."""

    state: SubscriptionStatus = SubscriptionStatus.WANTED
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
        return self.state is SubscriptionStatus.VERIFIED and (self.expires_at is None or self.expires_at > now)


def apply_answer(
    before: SubscriptionState, answer: PushAnswer, now: datetime, luck: float, rules: RenewalRules
) -> SubscriptionState:
    """Applies an answer to a subscription. `luck`, from 0 to 1, spreads renewals over time."""
    match answer:
        case LeaseGranted(lease):
            return mark_granted(before, lease, luck, rules, before.asked_at or now)
        case VerificationAwaited() if before.state is SubscriptionStatus.LEAVING and before.failures >= MAX_FAREWELLS:
            return mark_ended(before, now, "Unsubscribed without verification by the server.")
        case VerificationAwaited(within):
            if before.verified_at is not None and before.asked_at is not None and before.verified_at >= before.asked_at:
                return before  # it was verified before the answer came
            # Each request without a verification counts as a failure.
            until = now + _doubled_pause(within, LONGEST_PAUSE, before.failures)
            reason = f"Requested. Requested again unless the server verifies it by {humanize.format_moment(until)}."
            return replace(before, failures=before.failures + 1, due_at=until, reason=reason)
        case RequestRefused(why) if before.state is SubscriptionStatus.LEAVING:
            return mark_ended(before, now, f"Cannot be unsubscribed: {why}")
        case RequestMissed(why) if before.state is SubscriptionStatus.LEAVING and before.failures >= MAX_FAREWELLS:
            return mark_ended(before, now, f"Could not be unsubscribed: {why}")
        case RequestRefused():
            return _mark_refused(before, answer, now, luck)
        case RequestMissed():
            return _mark_missed(before, answer, now, luck)


def mark_granted(
    before: SubscriptionState, lease: timedelta, luck: float, rules: RenewalRules, since: datetime
) -> SubscriptionState:
    due_at = since + renewal_age(lease, luck, rules)
    reason = f"Lease of {humanize.format_span(lease)}, renewed on {humanize.format_moment(due_at)}."
    fresh = replace(before, state=SubscriptionStatus.VERIFIED, intent="", failures=0, reason=reason)
    return replace(fresh, verified_at=since, expires_at=since + lease, due_at=due_at)


def mark_ended(before: SubscriptionState, now: datetime, why: str) -> SubscriptionState:
    """Ends the subscription: no pushes are taken and no requests made any longer."""
    return replace(before, state=SubscriptionStatus.ENDED, intent="", due_at=None, ended_at=now, reason=why)


def renewal_age(lease: timedelta, luck: float, rules: RenewalRules) -> timedelta:
    """The age at which a registration is renewed: by the rules, as far as the lease allows."""
    earliest = rules.renew_after if lease <= CLOUD_LEASE else max(rules.renew_after, LONG_LEASE_SHARE * lease)
    if earliest > (LONG_LEASE_SHARE + LATEST_RENEWAL_SHARE) / 2 * lease:
        earliest = LONG_LEASE_SHARE * lease
    return earliest + min(rules.spread, LATEST_RENEWAL_SHARE * lease - earliest) * luck


def _mark_refused(before: SubscriptionState, refused: RequestRefused, now: datetime, luck: float) -> SubscriptionState:
    """Stores a refusal. Each other way is tried soon, once."""
    failures = before.failures + 1
    is_soon = failures < refused.ways
    pause = OTHER_WAY_PAUSE if is_soon else _doubled_pause(FIRST_REST, LONGEST_REST, failures - refused.ways)
    state = before.state if before.is_in_force(now) else SubscriptionStatus.DENIED
    other = " in another way" if refused.ways > 1 else ""
    reason = f"Refused: {refused.why} Requested again{other} after {humanize.format_span(pause)}."
    stands = replace(before, state=state, intent="", way=(before.way + 1) % refused.ways, failures=failures)
    return replace(stands, due_at=now + pause * (1 - luck / 10), reason=reason)


def _mark_missed(before: SubscriptionState, missed: RequestMissed, now: datetime, luck: float) -> SubscriptionState:
    pause = _doubled_pause(FIRST_PAUSE, LONGEST_PAUSE, before.failures)
    has_expired = before.state is SubscriptionStatus.VERIFIED and not before.is_in_force(now)
    state = SubscriptionStatus.WANTED if has_expired else before.state
    reason = f"Not requested: {missed.why} Retried after {humanize.format_span(pause)}."
    stands = replace(before, state=state, failures=before.failures + 1, reason=reason)
    return replace(stands, intent=before.intent if missed.is_open else "", due_at=now + pause * (1 - luck / 10))


def _doubled_pause(first: timedelta, longest: timedelta, failures: int) -> timedelta:
    return min(first * (1 << min(failures, 20)), longest)


class SubscriberStatus(Enum):
    """The state of another site's subscription at this site's hub or cloud."""

    ASKED = "asked"
    """Requested, and not confirmed yet by its callback. Nothing else is sent there."""
    VERIFIED = "in force"
    ENDED = "ended"


FIRST_DELIVERY_PAUSE, LONGEST_DELIVERY_PAUSE = timedelta(minutes=1), timedelta(hours=6)
MAX_DELIVERY_FAILURES = 10
"""The failures in a row after which a subscriber is dropped: after eight and a half hours."""


def pause_after_failures(failures: int) -> timedelta | None:
    """The pause before the next delivery after so many failures in a row; None: the subscriber is dropped."""
    if failures >= MAX_DELIVERY_FAILURES:
        return None
    return _doubled_pause(FIRST_DELIVERY_PAUSE, LONGEST_DELIVERY_PAUSE, max(failures - 1, 0))
