"""Five hundred registrations at one cloud, renewed by the scan, with rows, claims and a clock of their own."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from pytest_django import Settings

from feeds.hub_models import Hub, Subscription
from feeds.models import Entry, Feed
from feeds.push import leases
from feeds.push.leases import (
    CLOUD_LEASE,
    LeaseGranted,
    RenewalRules,
    RequestMissed,
    SubscriptionState,
    SubscriptionStatus,
)
from feeds.subscriptions import fetch_task, subscribe
from feeds.subscriptions import renewals as subscriptions_renewals
from resources.fetch import dispatch
from resources.fetch.frontier.jobs import FetchJob, JobEnqueued
from retry import claims, stores
from tests.support.fetch_queue import calls_of

NUMBER, AT_ONCE = 500, 20
BEGAN = datetime(2026, 11, 1, 12, tzinfo=UTC)
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


class Cloud:
    """Takes the handed-over requests, at once: every twentieth only on the second request."""

    def __init__(self) -> None:
        self.now = BEGAN
        self.granted: defaultdict[int, list[datetime]] = defaultdict(list)
        self.missed: set[int] = set()
        self.expired: list[int] = []

    def enqueue_jobs(self, jobs: Sequence[FetchJob | None]) -> list[JobEnqueued]:
        calls = calls_of(jobs)
        rows = Subscription.objects.filter(pk__in=[call.arguments[1] for call in calls])
        rows.update(asked_at=self.now, intent="subscribe")
        for row in rows:
            self._answer(row)
        stores.execute_all_patiently("state", [claims.abandon_call(call.work_key, call.token) for call in calls])
        return [JobEnqueued("cloud", 1)] * len(calls)

    def _answer(self, row: Subscription) -> None:
        if not subscribe.subscription_state(row).is_in_force(self.now):
            self.expired.append(row.pk)
        if row.pk % 20 == 0 and row.pk not in self.missed:
            self.missed.add(row.pk)
            fetch_task.settle_answer(row, RequestMissed("it is away."), self.now)
            return
        self.granted[row.pk].append(self.now)
        fetch_task.settle_answer(row, LeaseGranted(CLOUD_LEASE), self.now)


def register(cloud: Cloud) -> None:
    """All of them as fast as scans ask for them: the worst case."""
    hub = Hub.objects.create(kind="rsscloud", url="https://cloud.example/pleaseNotify", digest="cloud")
    numbers = range(1, NUMBER + 1)
    said = {"offer_digest": "offered", "subscriber_count": 1}
    Feed.objects.bulk_create([Feed(pk=pk, slug=str(pk), key_digest=str(pk), **said) for pk in numbers], batch_size=100)
    seen = {"data": {}, "happened_at": BEGAN, "first_seen_at": BEGAN, "changed_at": BEGAN}
    Entry.objects.bulk_create([Entry(feed_id=pk, **seen) for pk in numbers], batch_size=100)
    rows = []
    for pk in numbers:
        at = BEGAN + (pk - 1) // AT_ONCE * MINUTE
        known = {"hub": hub, "offer_digest": "offered", "topic": f"https://{pk}.example/", "token": str(pk)}
        stands = leases.apply_answer(
            SubscriptionState(asked_at=at), LeaseGranted(CLOUD_LEASE), at, pk * 0.618 % 1, RenewalRules()
        )
        rows.append(Subscription(pk=pk, feed_id=pk, **known, **subscribe.state_fields(stands)))
        cloud.granted[pk].append(at)
    Subscription.objects.bulk_create(rows, batch_size=AT_ONCE)


@pytest.mark.django_db
@pytest.mark.usefixtures("redis_servers")
def test_five_hundred_registrations_are_renewed_once_a_day_by_the_scan_and_not_together(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.FEEDS_PUSH = True
    cloud = Cloud()
    monkeypatch.setattr(dispatch, "enqueue_jobs", cloud.enqueue_jobs)
    register(cloud)
    window = [BEGAN + 20 * HOUR + minute * MINUTE for minute in range(0, 240 + NUMBER // AT_ONCE + 30, 5)]
    for cloud.now in [BEGAN + hour * HOUR for hour in range(4, 20, 5)]:
        assert subscriptions_renewals.scan_subscriptions(cloud.now) == 0
    for cloud.now in window:
        subscriptions_renewals.scan_subscriptions(cloud.now)
    for cloud.now in [BEGAN + hour * HOUR for hour in range(26, 40, 5)]:
        assert subscriptions_renewals.scan_subscriptions(cloud.now) == 0

    assert (cloud.expired, len(cloud.missed)) == ([], NUMBER // 20)
    assert not Subscription.objects.exclude(state=SubscriptionStatus.VERIFIED.value, expires_at__gt=cloud.now).exists()
    assert {len(times) for times in cloud.granted.values()} == {2}, "each was renewed, once"
    assert min(later - earlier for earlier, later in cloud.granted.values()) >= 20 * HOUR
    renewals = Counter(later for _, later in cloud.granted.values())
    in_the_window = [renewals[at] for at in window[:48]]
    assert max(renewals.values()) <= 3 * sum(in_the_window) / len(in_the_window)
