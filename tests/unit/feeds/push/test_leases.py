"""Renewals of subscriptions: thousands of them over simulated days."""

import heapq
import random
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from feeds.push.leases import (
    CLOUD_LEASE,
    LeaseGranted,
    RenewalRules,
    RequestMissed,
    RequestRefused,
    SubscriptionState,
    SubscriptionStatus,
    VerificationAwaited,
    apply_answer,
    renewal_age,
)

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
RULES = RenewalRules()
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
SCANS = 5 * MINUTE
"""The time between two scans."""


def asked(**fields: object) -> SubscriptionState:
    return replace(SubscriptionState(asked_at=NOW, intent="subscribe"), **fields)  # type: ignore[arg-type]


def in_force(**fields: object) -> SubscriptionState:
    return apply_answer(asked(**fields), LeaseGranted(CLOUD_LEASE), NOW, 0.5, RULES)


def test_a_thousand_registrations_are_renewed_over_days_neither_too_early_nor_too_late_nor_together() -> None:
    """All are asked for within the first minutes, the worst case; one answer in twenty does not come."""
    luck = random.Random(7).random
    line = [(NOW + number // 40 * MINUTE, number) for number in range(1000)]
    stands = {number: SubscriptionState(due_at=at) for at, number in line}
    granted: dict[int, list[datetime]] = {number: [] for number in stands}
    renewals: Counter[datetime] = Counter()
    until = NOW + timedelta(days=3)
    while line and line[0][0] < until:
        at, number = heapq.heappop(line)
        before = stands[number]
        assert before.expires_at is None or at < before.expires_at, "it has expired"
        was_missed = luck() < 0.05
        answer = RequestMissed("it is away.") if was_missed else LeaseGranted(CLOUD_LEASE)
        stands[number] = found = apply_answer(replace(before, asked_at=at), answer, at, luck(), RULES)
        if not was_missed:
            granted[number].append(at)
        scan_at = NOW + ((found.due_at or until) - NOW) // SCANS * SCANS + SCANS
        heapq.heappush(line, (scan_at, number))
        renewals[scan_at] += not was_missed

    gaps = [later - earlier for times in granted.values() for earlier, later in pairwise(times)]
    assert min(gaps) >= RULES.renew_after
    assert min(map(len, granted.values())) > 2, "each was renewed each day"
    first_window = [renewals[NOW + RULES.renew_after + number * SCANS] for number in range(48)]
    assert max(first_window) <= 3 * sum(first_window) / len(first_window)
    assert max(renewals.values()) <= 3 * 1000 / 48, "nor does it bunch later"


@pytest.mark.parametrize("luck", [0.0, 0.3, 1.0])
def test_a_cloud_is_asked_again_after_20_hours_and_before_24(luck: float) -> None:
    found = apply_answer(asked(), LeaseGranted(CLOUD_LEASE), NOW, luck, RULES)
    assert (found.state, found.expires_at) == (SubscriptionStatus.VERIFIED, NOW + 25 * HOUR)
    assert found.due_at == NOW + 20 * HOUR + luck * 4 * HOUR
    assert (found.failures, found.intent) == (0, "")


@pytest.mark.parametrize(
    ("lease", "earliest", "latest"),
    [
        (timedelta(days=10), timedelta(days=8), timedelta(days=8) + 4 * HOUR),
        (timedelta(days=1), 20 * HOUR, 23.04 * HOUR),
        (HOUR, 48 * MINUTE, 57.6 * MINUTE),
    ],
)
def test_granted_leases_are_renewed_late_but_before_they_end(
    lease: timedelta, earliest: timedelta, latest: timedelta
) -> None:
    found = [renewal_age(lease, luck, RULES) for luck in (0.0, 1.0)]
    assert found == [earliest, pytest.approx(latest, abs=timedelta(seconds=1))]


def test_rules_that_leave_no_time_are_bent_before_a_registration_expires() -> None:
    assert renewal_age(CLOUD_LEASE, 1.0, RenewalRules(renew_after=30 * HOUR)) < CLOUD_LEASE
    assert renewal_age(CLOUD_LEASE, 1.0, RenewalRules(renew_after=20 * HOUR, spread=40 * HOUR)) < CLOUD_LEASE


def test_a_refusal_is_followed_by_the_other_ways_soon_and_then_by_longer_and_longer_rests() -> None:
    stands, waits, ways = asked(), [], []
    for _ in range(7):
        stands = apply_answer(stands, RequestRefused("it says no.", ways=3), NOW, 0.0, RULES)
        assert stands.due_at is not None
        waits.append(stands.due_at - NOW)
        ways.append(stands.way)
    assert waits == [MINUTE, MINUTE, 6 * HOUR, 12 * HOUR, 24 * HOUR, 48 * HOUR, 96 * HOUR]
    assert ways == [1, 2, 0, 1, 2, 0, 1]
    assert stands.state is SubscriptionStatus.DENIED
    assert "it says no" in stands.reason


def test_a_registration_that_cannot_be_renewed_stays_in_force_until_it_expires() -> None:
    before = in_force()
    early = apply_answer(before, RequestMissed("it is away."), NOW + 22 * HOUR, 0.0, RULES)
    assert (early.state, early.due_at) == (SubscriptionStatus.VERIFIED, NOW + 22 * HOUR + 10 * MINUTE)
    late = apply_answer(replace(early, failures=9), RequestMissed("it is away."), NOW + 26 * HOUR, 0.0, RULES)
    assert (late.state, late.due_at) == (SubscriptionStatus.WANTED, NOW + 50 * HOUR)


def test_the_time_counts_from_the_request_not_from_its_answer() -> None:
    found = apply_answer(asked(), LeaseGranted(CLOUD_LEASE), NOW + HOUR, 0.0, RULES)
    assert found.verified_at == NOW


def test_a_verification_that_came_before_the_answer_stands() -> None:
    verified = in_force()
    assert apply_answer(verified, VerificationAwaited(HOUR), NOW + MINUTE, 0.0, RULES) == verified
    again = replace(verified, asked_at=NOW + 20 * HOUR)
    assert apply_answer(again, VerificationAwaited(HOUR), NOW + 20 * HOUR, 0.0, RULES).due_at == NOW + 21 * HOUR


def test_a_hub_that_does_not_hear_that_it_is_left_is_told_a_few_times() -> None:
    stands, times = asked(state=SubscriptionStatus.LEAVING), 0
    while stands.state is SubscriptionStatus.LEAVING:
        stands, times = apply_answer(stands, RequestMissed("it is away."), NOW, 0.0, RULES), times + 1
    assert (stands.state, stands.ended_at, times) == (SubscriptionStatus.ENDED, NOW, 6)
    refused = apply_answer(asked(state=SubscriptionStatus.LEAVING), RequestRefused("no."), NOW, 0.0, RULES)
    assert refused.state is SubscriptionStatus.ENDED
