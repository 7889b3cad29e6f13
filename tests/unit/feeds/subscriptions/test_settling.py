"""Contradictory messages of a hub: the latest stands, in whatever order they come in."""

from datetime import UTC, datetime, timedelta

import pytest

from feeds.models import Subscription
from feeds.push.leases import CLOUD_LEASE, LeaseGranted, RequestMissed, SubscriptionStatus, VerificationAwaited
from feeds.push.offers import PushKind
from feeds.subscriptions import fetch_task, subscribe
from resources.fetch.http.messages import Failure, FetchFailed, FetchRequest, OutcomeTiming
from tests.support.feed_rows import feed
from tests.support.feed_subscriptions import TOKEN, subscription

pytestmark = pytest.mark.django_db

NOW = datetime.now(UTC)
WEEK = timedelta(days=7)


@pytest.fixture
def asked() -> Subscription:
    """One that is in force, and is being renewed."""
    before = NOW - WEEK
    return subscription(
        feed("a"), PushKind.WEBSUB, intent="subscribe", asked_at=NOW, verified_at=before, expires_at=NOW
    )


@pytest.mark.parametrize("answer", [VerificationAwaited(timedelta(hours=1)), RequestMissed("it did not answer.")])
def test_a_verification_that_comes_while_the_answer_is_settled_stands(
    asked: Subscription, answer: VerificationAwaited | RequestMissed
) -> None:
    assert subscribe.confirm_subscription(TOKEN, asked.topic, WEEK, NOW)
    fetch_task.settle_answer(asked, answer, NOW)
    asked.refresh_from_db()
    assert (asked.state, asked.intent, asked.failures) == (SubscriptionStatus.VERIFIED.value, "", 0)
    assert asked.expires_at == NOW + WEEK


def test_an_answer_that_comes_after_the_feed_was_paused_is_none_to_what_the_hub_is_asked_next(
    asked: Subscription,
) -> None:
    subscribe.end_subscription(asked, "Paused.", NOW)
    refused = FetchFailed(Failure.PERMANENT, "it answered 404", OutcomeTiming(0, 1), status=404)
    fetch_task.TASK.prepare(refused, "https://hub.example/", asked.pk)
    asked.refresh_from_db()
    assert (asked.state, asked.due_at) == (SubscriptionStatus.LEAVING.value, NOW)


@pytest.mark.parametrize("kind", PushKind)
def test_what_was_granted_before_its_fetcher_was_killed_is_not_asked_for_twice(kind: PushKind) -> None:
    held = subscription(feed("a"), kind, due_at=NOW)
    arguments = ("https://hub.example/", held.pk)
    assert isinstance(fetch_task.TASK.fetch(*arguments), FetchRequest)
    if kind is PushKind.WEBSUB:
        assert subscribe.confirm_subscription(TOKEN, held.topic, WEEK, NOW)
    else:
        held.refresh_from_db()
        fetch_task.settle_answer(held, LeaseGranted(CLOUD_LEASE), NOW)
    before = Subscription.objects.values().get()
    assert fetch_task.TASK.fetch(*arguments) == {}
    assert Subscription.objects.values().get() == before


@pytest.mark.parametrize("status", [None, 500])
def test_a_hub_that_took_longer_than_was_waited_for_may_verify_later_and_one_that_said_no_may_not(
    asked: Subscription, status: int | None
) -> None:
    late = FetchFailed(Failure.TOO_SLOW, "it did not answer", OutcomeTiming(0, 1), status=status)
    fetch_task.TASK.prepare(late, "https://hub.example/", asked.pk)
    asked.refresh_from_db()
    assert (asked.state, asked.failures) == (SubscriptionStatus.WANTED.value, 1)
    assert subscribe.confirm_subscription(TOKEN, asked.topic, WEEK, datetime.now(UTC)) is (status is None)
