"""From a hub or cloud in a feed to fresh entries: a real fetcher, real HTTP, a hub and a cloud of the tests' own."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from multidict import CIMultiDict

from feeds import lifecycle
from feeds.hub_models import Subscription
from feeds.models import Entry, Feed
from feeds.push.kinds import PushKind
from feeds.push.leases import (
    CLOUD_LEASE,
    LeaseGranted,
    PushAnswer,
    RequestMissed,
    RequestRefused,
    SubscriptionStatus,
    VerificationAwaited,
)
from feeds.subscriptions import fetch_task, renewals
from feeds.subscriptions import subscribe as subscriptions
from resources.fetch.http.messages import Body, Failure, Fetched, FetchFailed, FetchRequest, Head, Hop, OutcomeTiming
from tests.hostile.origin import Origin, answer
from tests.support import feed_rows
from tests.support.cloud_server import Cloud, element
from tests.support.feed_scans import feed, gather, rss, subscribe, titles, wait_until
from tests.support.feed_subscriptions import TOKEN, subscription
from tests.support.hub_server import Hub

DAY = timedelta(days=1)


def announced(origin: Origin, hub: Hub) -> str:
    """The topic of a feed that names this hub in its Link fields, has a follower, and has just been read."""
    read(origin.does("/f", feed(rss("one"), hub.links(origin.url("/f")))))
    return origin.url("/f")


def read(url: str) -> None:
    subscribe(url, "a", subscriber_count=1)
    gather()
    Entry.objects.update(happened_at=datetime.now(UTC))


def only() -> Subscription:
    return Subscription.objects.select_related("hub", "feed").get()


def scanned(holds: Callable[[], object]) -> None:
    """Scans subscriptions until something has come of it."""

    def has_come() -> object:
        renewals.scan_subscriptions(datetime.now(UTC))
        return holds()

    wait_until(has_come)


def is_in(state: SubscriptionStatus) -> Callable[[], bool]:
    return lambda: only().state == state.value


in_force, denied, ended = map(is_in, (SubscriptionStatus.VERIFIED, SubscriptionStatus.DENIED, SubscriptionStatus.ENDED))


def test_a_hub_that_grants_less_is_asked_again_before_that_is_over(hub: Hub, origin: Origin) -> None:
    hub.grants = 3600
    announced(origin, hub)
    scanned(in_force)
    found = only()
    assert found.verified_at is not None
    assert found.expires_at == found.verified_at + timedelta(hours=1)
    assert found.due_at is not None
    assert found.due_at < found.expires_at
    secret, token = hub.only().secret, found.token
    due_now()
    scanned(lambda: len(hub.verified) == 2)
    assert (hub.only().secret, only().token) == (secret, token)
    assert [form["hub.lease_seconds"] for form in hub.asked] == ["864000", "864000"]


def outcome(status: int, *hops: int) -> Fetched | FetchFailed:
    """The outcome of a request that was redirected by these."""
    led, timing = tuple(Hop("https://hub.example/", each) for each in hops), OutcomeTiming(0, 1)
    if status < 300:
        return Fetched(Head(status, "https://hub.example/", CIMultiDict(), hops=led), Body(0, "", b""), timing)
    return FetchFailed(Failure.PERMANENT, "it answered so", timing, status=status, hops=led)


def no_answer(status: int | None = None) -> FetchFailed:
    """The outcome of a request that the hub may have taken."""
    return FetchFailed(Failure.TOO_SLOW, "it did not answer", OutcomeTiming(0, 1), status=status)


def left_behind(status: int) -> RequestMissed:
    return RequestMissed(f"the hub redirects by {status}, which leaves the request behind.")


@pytest.mark.parametrize(
    ("came", "expected"),
    [
        pytest.param(outcome(202), VerificationAwaited(fetch_task.VERIFIED_WITHIN), id="taken"),
        pytest.param(outcome(204, 307, 308), VerificationAwaited(fetch_task.VERIFIED_WITHIN), id="taken elsewhere"),
        pytest.param(outcome(200, 302), left_behind(302), id="302"),
        pytest.param(outcome(200, 308, 301), left_behind(301), id="301"),
        pytest.param(outcome(400), RequestRefused("it answered so."), id="refused"),
        pytest.param(outcome(429), RequestMissed("it answered so."), id="not now"),
        pytest.param(outcome(500), RequestMissed("it answered so."), id="its failure"),
        pytest.param(no_answer(), RequestMissed("it did not answer.", is_open=True), id="no answer"),
        pytest.param(no_answer(status=202), RequestMissed("it did not answer.", is_open=True), id="half an answer"),
    ],
)
def test_what_a_hub_answers_is_understood(came: Fetched | FetchFailed, expected: PushAnswer) -> None:
    assert fetch_task.read_hub_answer(Subscription(), came) == expected


def test_where_one_hub_says_no_the_next_is_asked(hub: Hub, origin: Origin) -> None:
    refusing = origin.does("/refusing", answer("403 Forbidden"))
    links = f'Link: <{refusing}>; rel="hub", <{hub.url}>; rel="hub", <{origin.url("/f")}>; rel="self"'
    read(origin.does("/f", feed(rss("one"), links)))
    scanned(lambda: hub.known)
    scanned(lambda: Subscription.objects.filter(hub__url=hub.url, state=SubscriptionStatus.VERIFIED.value).exists())
    assert Subscription.objects.get(hub__url__endswith="/refusing").state != SubscriptionStatus.VERIFIED.value


def test_a_hub_that_takes_a_subscription_back_has_its_feed_polled_at_once(hub: Hub, origin: Origin) -> None:
    topic = announced(origin, hub)
    scanned(in_force)
    later = {"is_pushed": True, "next_check_at": datetime.now(UTC) + DAY}
    Feed.objects.update(**later)
    hub.denies = "Closed"
    hub.settle({"hub.topic": topic, "hub.callback": hub.only().callback})
    assert denied()
    assert not Feed.objects.get().is_pushed
    assert Feed.objects.get().next_check_at < datetime.now(UTC) + DAY / 2


@pytest.mark.parametrize("how", ["paused", "deleted"])
def test_a_subscription_ends_with_its_feed_and_the_hub_is_told(hub: Hub, how: str, origin: Origin) -> None:
    def end() -> None:
        now, feeds = datetime.now(UTC), [Feed.objects.get().pk]
        (lifecycle.pause_feeds if how == "paused" else lifecycle.remove_feeds)(feeds, now)

    topic = announced(origin, hub)
    scanned(in_force)
    known = hub.only()
    end()
    if how == "deleted":
        assert hub.deliver(topic, rss("two")) == [410]
    hub.known[known.callback] = known
    scanned(ended)
    assert [form["hub.mode"] for form in hub.asked] == ["subscribe", "unsubscribe"]
    wait_until(lambda: not hub.known)  # it forgets once it has verified the request
    hub.known[known.callback] = known  # one that goes on all the same is told so
    assert hub.deliver(topic, rss("two")) == [410]
    assert "two" not in titles()


def test_a_hub_without_tls_gets_no_secret_for_a_feed_that_has_it(hub: Hub, origin: Origin) -> None:
    topic = announced(origin, hub)
    Feed.objects.update(url=topic.replace("http:", "https:"))
    scanned(in_force)
    assert hub.only().secret == ""
    assert hub.deliver(topic, rss("forged")) == [200]  # a ping: its body proves nothing
    assert Feed.objects.get().flagged_at is not None
    assert titles() == ["one"]


def offered(origin: Origin, cloud: Cloud, protocol: str = "http-post") -> str:
    """The URL of a feed with this cloud that has a follower, and has just been read."""
    url = origin.does("/f", feed(rss("one", more=element(cloud, protocol))))
    read(url)
    return url


@pytest.mark.parametrize("protocol", ["http-post", "xml-rpc"])
def test_a_feed_with_a_cloud_is_subscribed_verified_and_fetched_when_the_cloud_pings(
    cloud: Cloud, protocol: str, origin: Origin
) -> None:
    url = offered(origin, cloud, protocol)
    scanned(in_force)
    found = only()
    assert found.asked_at is not None
    assert found.expires_at == found.asked_at + timedelta(hours=25)
    origin.does("/f", feed(rss("one", "two", more=element(cloud, protocol))))
    assert cloud.ping(url) == [True]
    gather()
    assert titles() == ["one", "two"]
    assert Feed.objects.get().pushed_at is not None


def due_now() -> None:
    Subscription.objects.update(due_at=datetime.now(UTC))


def test_a_refusal_in_an_answer_of_200_is_understood_and_asked_for_in_another_way(cloud: Cloud, origin: Origin) -> None:
    cloud.wants_domain = False
    offered(origin, cloud)
    scanned(denied)
    assert "calls back the address that asks" in only().reason
    due_now()
    scanned(in_force)
    assert ["domain" in each for each in cloud.asked] == [True, False]
    assert len(cloud.registered) == 1


def test_a_cloud_that_refuses_is_left_alone_for_hours(cloud: Cloud, origin: Origin) -> None:
    cloud.refuses, cloud.speaks_json = "The feed cannot be read.", True
    offered(origin, cloud)
    scanned(denied)
    due_now()
    scanned(lambda: only().failures == 2)
    found = only()
    assert found.due_at is not None
    assert found.due_at > datetime.now(UTC) + timedelta(hours=5)
    assert "The feed cannot be read." in found.reason


def test_a_cloud_that_is_away_is_asked_again_and_nothing_is_in_force(cloud: Cloud, origin: Origin) -> None:
    cloud.url = origin.does("/gone", answer("500 Broken")).removesuffix("/gone")
    origin.does("/pleaseNotify", answer("500 Broken"))
    offered(origin, cloud)
    scanned(lambda: only().failures == 1)
    found = only()
    assert (found.state, found.intent) == (SubscriptionStatus.WANTED.value, "")
    assert "500" in found.reason
    assert found.due_at is not None
    assert found.due_at > datetime.now(UTC) + timedelta(minutes=8)


def test_what_expires_is_renewed_before_and_the_cloud_goes_on_telling(cloud: Cloud, origin: Origin) -> None:
    clock = [datetime.now(UTC)]
    cloud.now = lambda: clock[0]
    url = offered(origin, cloud)
    scanned(in_force)
    first = only()
    clock[0] += timedelta(hours=24)
    assert len(cloud.subscribers(url)) == 1
    due_now()
    scanned(lambda: only().asked_at != first.asked_at and not only().intent)
    clock[0] += timedelta(hours=24)
    assert len(cloud.subscribers(url)) == 1, "it would have been forgotten after 25 hours"
    clock[0] += timedelta(hours=2)
    assert cloud.subscribers(url) == []
    assert only().token in next(iter(cloud.registered))[1].url


NOW = datetime.now(UTC)
WEEK = timedelta(days=7)


@pytest.fixture
def renewed() -> Subscription:
    """One that is in force, and is being renewed."""
    before = NOW - WEEK
    return subscription(
        feed_rows.feed("a"), PushKind.WEBSUB, intent="subscribe", asked_at=NOW, verified_at=before, expires_at=NOW
    )


@pytest.mark.django_db
@pytest.mark.parametrize("answer", [VerificationAwaited(timedelta(hours=1)), RequestMissed("it did not answer.")])
def test_a_verification_that_comes_while_the_answer_is_settled_stands(
    renewed: Subscription, answer: VerificationAwaited | RequestMissed
) -> None:
    assert subscriptions.confirm_subscription(TOKEN, renewed.topic, WEEK, NOW)
    fetch_task.settle_answer(renewed, answer, NOW)
    renewed.refresh_from_db()
    assert (renewed.state, renewed.intent, renewed.failures) == (SubscriptionStatus.VERIFIED.value, "", 0)
    assert renewed.expires_at == NOW + WEEK


@pytest.mark.django_db
def test_an_answer_that_comes_after_the_feed_was_paused_is_none_to_what_the_hub_is_asked_next(
    renewed: Subscription,
) -> None:
    subscriptions.end_subscription(renewed, "Paused.", NOW)
    refused = FetchFailed(Failure.PERMANENT, "it answered 404", OutcomeTiming(0, 1), status=404)
    fetch_task.TASK.prepare(refused, "https://hub.example/", renewed.pk)
    renewed.refresh_from_db()
    assert (renewed.state, renewed.due_at) == (SubscriptionStatus.LEAVING.value, NOW)


@pytest.mark.django_db
@pytest.mark.parametrize("kind", PushKind)
def test_what_was_granted_before_its_fetcher_was_killed_is_not_asked_for_twice(kind: PushKind) -> None:
    held = subscription(feed_rows.feed("a"), kind, due_at=NOW)
    arguments = ("https://hub.example/", held.pk)
    assert isinstance(fetch_task.TASK.fetch(*arguments), FetchRequest)
    if kind is PushKind.WEBSUB:
        assert subscriptions.confirm_subscription(TOKEN, held.topic, WEEK, NOW)
    else:
        held.refresh_from_db()
        fetch_task.settle_answer(held, LeaseGranted(CLOUD_LEASE), NOW)
    before = Subscription.objects.values().get()
    assert fetch_task.TASK.fetch(*arguments) == {}
    assert Subscription.objects.values().get() == before


@pytest.mark.django_db
@pytest.mark.parametrize("status", [None, 500])
def test_a_hub_that_took_longer_than_was_waited_for_may_verify_later_and_one_that_said_no_may_not(
    renewed: Subscription, status: int | None
) -> None:
    late = FetchFailed(Failure.TOO_SLOW, "it did not answer", OutcomeTiming(0, 1), status=status)
    fetch_task.TASK.prepare(late, "https://hub.example/", renewed.pk)
    renewed.refresh_from_db()
    assert (renewed.state, renewed.failures) == (SubscriptionStatus.WANTED.value, 1)
    assert subscriptions.confirm_subscription(TOKEN, renewed.topic, WEEK, datetime.now(UTC)) is (status is None)
