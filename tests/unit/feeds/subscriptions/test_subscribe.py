"""The feeds that are subscribed, and those that no longer are."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pytest_django import Settings

from feeds import lifecycle
from feeds.hub_models import Hub, Subscription
from feeds.models import Category, Entry, Feed
from feeds.parser import documents
from feeds.push import offers
from feeds.push.kinds import PushKind
from feeds.push.leases import SubscriptionStatus
from feeds.schedule.state import FeedStatus as FeedState
from feeds.subscriptions import renewals, subscribe
from tests.support import plain_feeds
from tests.support.feed_rows import entry, feed
from tests.support.feed_subscriptions import SERVER, subscription

pytestmark = pytest.mark.django_db

NOW = datetime.now(UTC)
DAY = timedelta(days=1)
SAID = documents.FeedHead(title="A", cloud_url="http://cloud.example/pleaseNotify")


def offering(slug: str = "a", age: timedelta = DAY, said: documents.FeedHead = SAID, **fields: Any) -> Feed:
    """A feed with a reader, and a last entry of that age."""
    row = feed(slug, entry(1, published=NOW - age), said=said, **{"subscriber_count": 1, **fields})
    offer = offers.find_offer(row.said, row.linked, row.url)
    Feed.objects.filter(pk=row.pk).update(offer_digest=offer.digest if offer else "")
    return Feed.objects.get(pk=row.pk)


def subscribed() -> list[str]:
    return list(Subscription.objects.values_list("feed__slug", flat=True))


def test_a_feed_with_a_cloud_gets_an_address_of_its_own_that_nobody_guesses_and_is_due_at_once() -> None:
    row, other = offering("a"), offering("b")
    assert subscribe.begin_wanted_subscriptions(NOW) == 2
    found = Subscription.objects.get(feed=row)
    assert found.token != Subscription.objects.get(feed=other).token
    assert Hub.objects.count() == 1
    assert (found.feed, found.topic, found.hub.url) == (row, row.url, "http://cloud.example/pleaseNotify")
    assert (found.state, found.due_at) == (SubscriptionStatus.WANTED.value, NOW)
    assert len(found.token) >= 43
    assert subscribe.begin_wanted_subscriptions(NOW) == 0


@pytest.mark.parametrize(
    "fields",
    [
        {"age": 15 * DAY},
        {"subscriber_count": 0},
        {"paused": True},
        {"state": FeedState.GONE.value},
        {"said": documents.FeedHead(title="A")},
        {"user": "someone"},
        {"sealed_headers": "sealed"},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_quiet_unread_paused_gone_and_private_feeds_and_such_without_an_offer_are_not(fields: dict[str, Any]) -> None:
    offering(**fields)
    assert subscribe.begin_wanted_subscriptions(NOW) == 0


def test_how_recent_and_how_much_read_are_settings(settings: Settings) -> None:
    settings.FEEDS_PUSH_RECENT_DAYS, settings.FEEDS_PUSH_LEAST_SUBSCRIBERS = 2, 3
    offering("old", age=3 * DAY, subscriber_count=3)
    offering("unread", subscriber_count=2)
    offering("right", subscriber_count=3)
    subscribe.begin_wanted_subscriptions(NOW)
    assert subscribed() == ["right"]


@pytest.mark.parametrize("read", ["all", "sea"])
def test_a_feed_with_readers_of_a_combination_alone_is_subscribed(read: str) -> None:
    plain_feeds.category("sea", offering(subscriber_count=0))
    assert subscribe.begin_wanted_subscriptions(NOW) == 0
    Category.objects.filter(slug=read).update(reader_count=1)
    assert subscribe.begin_wanted_subscriptions(NOW) == 1


def test_a_quiet_feed_is_not_renewed_ends_when_it_expires_and_comes_back_with_its_next_entry() -> None:
    row = offering(age=15 * DAY)
    held = subscription(row, offer_digest=row.offer_digest, due_at=NOW)
    renewals.hand_over_due_subscriptions(NOW)
    held.refresh_from_db()
    assert (held.state, held.due_at) == (SubscriptionStatus.VERIFIED.value, NOW + renewals.QUIET_LOOK_AFTER)
    assert held.reason == renewals.QUIET_REASON
    assert held.expires_at is not None
    soon = held.expires_at - timedelta(minutes=1)
    Subscription.objects.update(due_at=soon)
    renewals.hand_over_due_subscriptions(soon)
    assert Subscription.objects.get().due_at == held.expires_at

    expired = NOW + 2 * DAY
    subscribe.end_unwanted_subscriptions(expired)
    renewals.hand_over_due_subscriptions(expired)
    held.refresh_from_db()
    assert (held.state, held.due_at) == (SubscriptionStatus.ENDED.value, None)

    Entry.objects.update(happened_at=expired)
    assert subscribe.begin_wanted_subscriptions(expired) == 1


def test_another_cloud_or_none_ends_it_and_another_is_subscribed_at_once() -> None:
    row = offering()
    subscribe.begin_wanted_subscriptions(NOW)
    other = documents.FeedHead(cloud_url="http://other.example/notify")
    said = {"cloud_url": other.cloud_url}
    offer = offers.find_offer(said, {}, row.url)
    assert offer is not None
    Feed.objects.update(said=said, offer_digest=offer.digest)
    subscribe.end_unwanted_subscriptions(NOW)
    subscribe.begin_wanted_subscriptions(NOW)
    states = dict(Subscription.objects.values_list("hub__url", "state"))
    assert states == {SAID.cloud_url: SubscriptionStatus.ENDED.value, other.cloud_url: SubscriptionStatus.WANTED.value}
    Feed.objects.update(said={}, offer_digest="")
    subscribe.end_unwanted_subscriptions(NOW)
    assert not Subscription.objects.exclude(state=SubscriptionStatus.ENDED.value).exists()


def test_a_cloud_that_knows_a_feed_still_is_not_asked_again_after_a_pause_or_another_offer() -> None:
    row = offering()
    held = subscription(row, offer_digest=row.offer_digest, asked_at=NOW, verified_at=NOW, expires_at=NOW + DAY)
    for fields in ({"paused": True}, {"paused": False, "offer_digest": "another"}):
        Feed.objects.update(**fields)
        subscribe.end_unwanted_subscriptions(NOW)
        held.refresh_from_db()
        assert held.state == SubscriptionStatus.ENDED.value
        Feed.objects.update(paused=False, offer_digest=row.offer_digest)
        subscribe.begin_wanted_subscriptions(NOW)
        again = Subscription.objects.get()
        assert (again.pk, again.token, again.state) == (held.pk, held.token, SubscriptionStatus.VERIFIED.value)
        assert (again.expires_at, again.ended_at) == (held.expires_at, None)
        assert again.due_at is not None
        assert again.due_at - NOW > timedelta(hours=19)
        assert again.created_at == NOW, "what was new meanwhile would count against its cloud"
    Feed.objects.update(paused=True)
    subscribe.end_unwanted_subscriptions(NOW)
    Feed.objects.update(paused=False)
    subscribe.begin_wanted_subscriptions(NOW + DAY)
    assert Subscription.objects.exclude(pk=held.pk).get().due_at == NOW + DAY


@pytest.mark.parametrize("what", ["pause", "remove", "gone"])
def test_a_cloud_is_forgotten_and_a_hub_is_told_when_a_feed_is_not_fetched_any_more(what: str) -> None:
    cloud, hub = offering("cloud"), offering("hub")
    subscription(cloud, offer_digest=cloud.offer_digest, token="cloud")
    subscription(hub, PushKind.WEBSUB, offer_digest=hub.offer_digest, token="hub")
    match what:
        case "pause":
            lifecycle.pause_feeds([cloud.pk, hub.pk], NOW)
        case "remove":
            lifecycle.remove_feeds([cloud.pk, hub.pk], NOW)
        case _:
            Feed.objects.update(state=FeedState.GONE.value)
    subscribe.end_unwanted_subscriptions(NOW)
    states = dict(Subscription.objects.values_list("token", "state"))
    assert states == {"cloud": SubscriptionStatus.ENDED.value, "hub": SubscriptionStatus.LEAVING.value}
    assert Subscription.objects.get(token="hub").due_at == NOW


def test_what_has_expired_is_not_in_force() -> None:
    row = offering()
    subscription(row, offer_digest=row.offer_digest, expires_at=NOW)
    subscribe.end_unwanted_subscriptions(NOW)
    assert Subscription.objects.get().state == SubscriptionStatus.WANTED.value


def test_what_ended_long_ago_goes() -> None:
    subscription(offering("a"), state=SubscriptionStatus.ENDED.value, ended_at=NOW - 2 * DAY, token="a")
    subscription(offering("b"), state=SubscriptionStatus.ENDED.value, ended_at=NOW, token="b")
    subscribe.prune_subscriptions(NOW - DAY)
    assert list(Subscription.objects.values_list("token", flat=True)) == ["b"]


def test_offers_that_cannot_be_used_are_in_the_way_of_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscribe, "MAX_ROWS_PER_PASS", 1)
    cloud_url = f"http://cloud.example/{'x' * 2000}"
    bad = offering("bad", said=documents.FeedHead(title="A", cloud_url=cloud_url))
    assert bad.offer_digest == ""
    Feed.objects.filter(pk=bad.pk).update(offer_digest="as it was before")
    good = offering("good")
    assert bad.pk < good.pk
    assert [subscribe.begin_wanted_subscriptions(NOW) for _ in range(2)] == [0, 1]
    assert subscribed() == ["good"]


def test_servers_that_nothing_has_been_asked_of_for_long_go() -> None:
    subscription(offering())
    for number, created_at in enumerate((NOW - 2 * DAY, NOW)):
        Hub.objects.create(kind="websub", url=f"https://{number}.example/", digest=str(number), created_at=created_at)
    Hub.objects.filter(subscriptions__isnull=False).update(created_at=NOW - 2 * DAY)
    subscribe.prune_subscriptions(NOW - DAY)
    assert set(Hub.objects.values_list("url", flat=True)) == {"https://1.example/", SERVER}


@pytest.mark.usefixtures("redis_servers")
def test_a_site_that_subscribes_no_more_polls_what_nobody_tells_of(settings: Settings) -> None:
    settings.FEEDS_PUSH = False
    row = offering(is_pushed=True)
    subscription(row, offer_digest=row.offer_digest, expires_at=NOW, due_at=NOW)
    offering("new")
    assert renewals.scan_subscriptions(NOW) == 0
    assert not Feed.objects.filter(is_pushed=True).exists()
    assert subscribed() == ["a"]
