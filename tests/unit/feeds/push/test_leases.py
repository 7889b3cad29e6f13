"""Renewals of subscriptions: their times, by the answers of hubs and clouds."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

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


def asked(**fields: object) -> SubscriptionState:
    return replace(SubscriptionState(asked_at=NOW, intent="subscribe"), **fields)  # type: ignore[arg-type]


def in_force(**fields: object) -> SubscriptionState:
    return apply_answer(asked(**fields), LeaseGranted(CLOUD_LEASE), NOW, 0.5, RULES)


@pytest.mark.parametrize("luck", [0.0, 0.3, 1.0])
def test_a_cloud_is_asked_again_20_to_24_hours_after_the_request_whenever_it_answered(luck: float) -> None:
    found = apply_answer(asked(), LeaseGranted(CLOUD_LEASE), NOW + HOUR, luck, RULES)
    assert (found.state, found.verified_at, found.expires_at) == (SubscriptionStatus.VERIFIED, NOW, NOW + 25 * HOUR)
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
