"""What a hub says by several ways at once: the latest stands, whatever comes in late."""

from datetime import UTC, datetime, timedelta

import pytest

from feeds.pushing.discovering import Kind
from feeds.pushing.renewing import CLOUD_LEASE, Awaited, Granted, Missed, State
from feeds.subscribing import preparing, verifying, wanting
from feeds.subscriptions import Subscription
from resources.fetching.outcomes import Failed, Failure, Timing
from resources.fetching.requests import Fetch
from tests.feeds.rows import feed
from tests.feeds.subscribed import TOKEN, subscription

pytestmark = pytest.mark.django_db

NOW = datetime.now(UTC)
WEEK = timedelta(days=7)


@pytest.fixture
def asked() -> Subscription:
    """One that is in force, and is being renewed."""
    before = NOW - WEEK
    return subscription(feed("a"), Kind.WEBSUB, intent="subscribe", asked_at=NOW, verified_at=before, expires_at=NOW)


@pytest.mark.parametrize("answer", [Awaited(timedelta(hours=1)), Missed("it did not answer.")])
def test_a_verification_that_comes_while_the_answer_is_settled_stands(
    asked: Subscription, answer: Awaited | Missed
) -> None:
    assert verifying.begin(TOKEN, asked.topic, WEEK, NOW)
    preparing.settle(asked, answer, NOW)
    asked.refresh_from_db()
    assert (asked.state, asked.intent, asked.failures) == (State.VERIFIED.value, "", 0)
    assert asked.expires_at == NOW + WEEK


def test_an_answer_that_comes_after_the_feed_was_paused_is_none_to_what_the_hub_is_asked_next(
    asked: Subscription,
) -> None:
    wanting.end_one(asked, "Paused.", NOW)
    refused = Failed(Failure.PERMANENT, "it answered 404", Timing(0, 1), status=404)
    preparing.TASK.prepare(refused, "https://hub.example/", asked.pk)
    asked.refresh_from_db()
    assert (asked.state, asked.due_at) == (State.LEAVING.value, NOW)


@pytest.mark.parametrize("kind", Kind)
def test_what_was_granted_before_its_fetcher_was_killed_is_not_asked_for_twice(kind: Kind) -> None:
    held = subscription(feed("a"), kind, due_at=NOW)
    arguments = ("https://hub.example/", held.pk)
    assert isinstance(preparing.TASK.fetch(*arguments), Fetch)
    if kind is Kind.WEBSUB:
        assert verifying.begin(TOKEN, held.topic, WEEK, NOW)
    else:
        held.refresh_from_db()
        preparing.settle(held, Granted(CLOUD_LEASE), NOW)
    before = Subscription.objects.values().get()
    assert preparing.TASK.fetch(*arguments) == {}
    assert Subscription.objects.values().get() == before


@pytest.mark.parametrize("status", [None, 500])
def test_a_hub_that_took_longer_than_was_waited_for_may_verify_later_and_one_that_said_no_may_not(
    asked: Subscription, status: int | None
) -> None:
    late = Failed(Failure.TOO_SLOW, "it did not answer", Timing(0, 1), status=status)
    preparing.TASK.prepare(late, "https://hub.example/", asked.pk)
    asked.refresh_from_db()
    assert (asked.state, asked.failures) == (State.WANTED.value, 1)
    assert verifying.begin(TOKEN, asked.topic, WEEK, datetime.now(UTC)) is (status is None)
