"""Which feeds are subscribed, and which no longer."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pytest_django import Settings

from feeds.deciding.standing import State as FeedState
from feeds.keeping import pausing
from feeds.models import Entry, Feed
from feeds.parsing import documents
from feeds.pushing import discovering
from feeds.pushing.discovering import Kind
from feeds.pushing.renewing import State
from feeds.subscribing import handing, scanning, wanting
from feeds.subscriptions import Hub, Subscription
from tests.feeds.rows import entry, feed
from tests.feeds.subscribed import SERVER, subscription

pytestmark = pytest.mark.django_db

NOW = datetime.now(UTC)
DAY = timedelta(days=1)
SAID = documents.Feed(title="A", cloud_url="http://cloud.example/pleaseNotify")


def offering(slug: str = "a", age: timedelta = DAY, said: documents.Feed = SAID, **fields: Any) -> Feed:
    """A feed that somebody reads, whose last entry is of that age."""
    row = feed(slug, entry(1, published=NOW - age), said=said, **{"subscriber_count": 1, **fields})
    offer = discovering.offer(row.said, row.linked, row.url)
    Feed.objects.filter(pk=row.pk).update(offer_digest=offer.digest if offer else "")
    return Feed.objects.get(pk=row.pk)


def subscribed() -> list[str]:
    return list(Subscription.objects.values_list("feed__slug", flat=True))


def test_a_feed_with_a_cloud_gets_an_address_that_nobody_guesses_and_is_due_at_once() -> None:
    row = offering()
    assert wanting.begin_wanted(NOW) == 1
    found = Subscription.objects.get()
    assert (found.feed, found.topic, found.hub.url) == (row, row.url, "http://cloud.example/pleaseNotify")
    assert (found.state, found.due_at) == (State.WANTED.value, NOW)
    assert len(found.token) >= 43
    assert wanting.begin_wanted(NOW) == 0


def test_feeds_of_one_cloud_have_one_hub_and_an_address_each() -> None:
    for slug in ("a", "b"):
        offering(slug)
    wanting.begin_wanted(NOW)
    assert Hub.objects.count() == 1
    assert Subscription.objects.values("token").distinct().count() == 2


@pytest.mark.parametrize(
    "fields",
    [
        {"age": 15 * DAY},
        {"subscriber_count": 0},
        {"paused": True},
        {"state": FeedState.GONE.value},
        {"said": documents.Feed(title="A")},
        {"user": "someone"},
        {"sealed_headers": "sealed"},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_quiet_unread_paused_gone_and_private_feeds_and_such_without_an_offer_are_not(fields: dict[str, Any]) -> None:
    offering(**fields)
    assert wanting.begin_wanted(NOW) == 0


def test_how_recent_and_how_much_read_are_settings(settings: Settings) -> None:
    settings.FEEDS_PUSH_RECENT_DAYS, settings.FEEDS_PUSH_LEAST_SUBSCRIBERS = 2, 3
    offering("old", age=3 * DAY, subscriber_count=3)
    offering("unread", subscriber_count=2)
    offering("right", subscriber_count=3)
    wanting.begin_wanted(NOW)
    assert subscribed() == ["right"]


def test_a_quiet_feed_is_not_renewed_ends_when_it_expires_and_comes_back_with_its_next_entry() -> None:
    row = offering(age=15 * DAY)
    held = subscription(row, offer_digest=row.offer_digest, due_at=NOW)
    handing.hand_over_due(NOW)
    held.refresh_from_db()
    assert (held.state, held.due_at) == (State.VERIFIED.value, NOW + handing.QUIET_FOR)
    assert held.reason == handing.QUIET
    assert held.expires_at is not None
    soon = held.expires_at - timedelta(minutes=1)
    Subscription.objects.update(due_at=soon)
    handing.hand_over_due(soon)
    assert Subscription.objects.get().due_at == held.expires_at

    expired = NOW + 2 * DAY
    wanting.end_unwanted(expired)
    handing.hand_over_due(expired)
    held.refresh_from_db()
    assert (held.state, held.due_at) == (State.ENDED.value, None)

    Entry.objects.update(happened_at=expired)
    assert wanting.begin_wanted(expired) == 1


def test_another_cloud_or_none_ends_it_and_another_is_subscribed_at_once() -> None:
    row = offering()
    wanting.begin_wanted(NOW)
    other = documents.Feed(cloud_url="http://other.example/notify")
    said = {"cloud_url": other.cloud_url}
    offer = discovering.offer(said, {}, row.url)
    assert offer is not None
    Feed.objects.update(said=said, offer_digest=offer.digest)
    wanting.end_unwanted(NOW)
    wanting.begin_wanted(NOW)
    states = dict(Subscription.objects.values_list("hub__url", "state"))
    assert states == {SAID.cloud_url: State.ENDED.value, other.cloud_url: State.WANTED.value}
    Feed.objects.update(said={}, offer_digest="")
    wanting.end_unwanted(NOW)
    assert not Subscription.objects.exclude(state=State.ENDED.value).exists()


def test_a_cloud_that_knows_a_feed_still_is_not_asked_again_after_a_pause_or_another_offer() -> None:
    row = offering()
    held = subscription(row, offer_digest=row.offer_digest, asked_at=NOW, verified_at=NOW, expires_at=NOW + DAY)
    for fields in ({"paused": True}, {"paused": False, "offer_digest": "another"}):
        Feed.objects.update(**fields)
        wanting.end_unwanted(NOW)
        held.refresh_from_db()
        assert held.state == State.ENDED.value
        Feed.objects.update(paused=False, offer_digest=row.offer_digest)
        wanting.begin_wanted(NOW)
        again = Subscription.objects.get()
        assert (again.pk, again.token, again.state) == (held.pk, held.token, State.VERIFIED.value)
        assert (again.expires_at, again.ended_at) == (held.expires_at, None)
        assert again.due_at is not None
        assert again.due_at - NOW > timedelta(hours=19)
        assert again.created_at == NOW, "what was new meanwhile would count against its cloud"
    Feed.objects.update(paused=True)
    wanting.end_unwanted(NOW)
    Feed.objects.update(paused=False)
    wanting.begin_wanted(NOW + DAY)
    assert Subscription.objects.exclude(pk=held.pk).get().due_at == NOW + DAY


@pytest.mark.parametrize("what", ["pause", "remove", "gone"])
def test_a_cloud_is_forgotten_and_a_hub_is_told_when_a_feed_is_not_fetched_any_more(what: str) -> None:
    cloud, hub = offering("cloud"), offering("hub")
    subscription(cloud, offer_digest=cloud.offer_digest, token="cloud")
    subscription(hub, Kind.WEBSUB, offer_digest=hub.offer_digest, token="hub")
    match what:
        case "pause":
            pausing.pause([cloud.pk, hub.pk], NOW)
        case "remove":
            pausing.remove([cloud.pk, hub.pk], NOW)
        case _:
            Feed.objects.update(state=FeedState.GONE.value)
    wanting.end_unwanted(NOW)
    states = dict(Subscription.objects.values_list("token", "state"))
    assert states == {"cloud": State.ENDED.value, "hub": State.LEAVING.value}
    assert Subscription.objects.get(token="hub").due_at == NOW


def test_what_has_expired_is_not_in_force() -> None:
    row = offering()
    subscription(row, offer_digest=row.offer_digest, expires_at=NOW)
    wanting.end_unwanted(NOW)
    assert Subscription.objects.get().state == State.WANTED.value


def test_what_ended_long_ago_goes() -> None:
    subscription(offering("a"), state=State.ENDED.value, ended_at=NOW - 2 * DAY, token="a")
    subscription(offering("b"), state=State.ENDED.value, ended_at=NOW, token="b")
    wanting.prune(NOW - DAY)
    assert list(Subscription.objects.values_list("token", flat=True)) == ["b"]


def test_offers_that_cannot_be_used_are_in_the_way_of_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wanting, "MOST_AT_ONCE", 1)
    cloud_url = f"http://cloud.example/{'x' * 2000}"
    bad = offering("bad", said=documents.Feed(title="A", cloud_url=cloud_url))
    assert bad.offer_digest == ""
    Feed.objects.filter(pk=bad.pk).update(offer_digest="as it was before")
    good = offering("good")
    assert bad.pk < good.pk
    assert [wanting.begin_wanted(NOW) for _ in range(2)] == [0, 1]
    assert subscribed() == ["good"]


def test_servers_that_nothing_has_been_asked_of_for_long_go() -> None:
    subscription(offering())
    for number, created_at in enumerate((NOW - 2 * DAY, NOW)):
        Hub.objects.create(kind="websub", url=f"https://{number}.example/", digest=str(number), created_at=created_at)
    Hub.objects.filter(subscriptions__isnull=False).update(created_at=NOW - 2 * DAY)
    wanting.prune(NOW - DAY)
    assert set(Hub.objects.values_list("url", flat=True)) == {"https://1.example/", SERVER}


@pytest.mark.usefixtures("redis_servers")
def test_a_site_that_subscribes_no_more_polls_what_nobody_tells_of(settings: Settings) -> None:
    settings.FEEDS_PUSH = False
    row = offering(is_pushed=True)
    subscription(row, offer_digest=row.offer_digest, expires_at=NOW, due_at=NOW)
    offering("new")
    assert scanning.scan(NOW) == 0
    assert not Feed.objects.filter(is_pushed=True).exists()
    assert subscribed() == ["a"]
