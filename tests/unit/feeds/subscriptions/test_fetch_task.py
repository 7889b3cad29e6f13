"""From a hub in a feed to fresh entries by its deliveries: a real fetcher, real HTTP, a hub of the test's own."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from multidict import CIMultiDict

from feeds.keeping import pausing
from feeds.models import Entry, Feed
from feeds.pushing.renewing import Answer, Awaited, Missed, Refused, State
from feeds.subscribing import hubs, scanning
from feeds.subscriptions import Subscription
from resources.fetching.outcomes import Body, Failed, Failure, Fetched, Head, Hop, Timing
from tests.feeds.gathered import feed, gather, gathered_from, rss, subscribe
from tests.flows.hub_server import Hub
from tests.hostile.origin import Origin, answer
from tests.resources.fetching.fetchers import WAIT_SECONDS
from tests.resources.mirroring.gathering.mirrored import in_a_thread

DAY = timedelta(days=1)


async def announced(origin: Origin, hub: Hub, *, path: str = "/f", topic: str = "") -> str:
    """The topic of a feed that names this hub in its Link fields, is followed by somebody, and has just been read."""
    url = origin.url(path)
    origin.does(path, feed(rss("one"), hub.links(topic or url)))
    await read(url)
    return topic or url


async def read(url: str) -> None:
    await in_a_thread(subscribe)(url, "a", subscriber_count=1)
    await gather()
    await in_a_thread(lambda: Entry.objects.update(happened_at=datetime.now(UTC)))()


def only() -> Subscription:
    return Subscription.objects.select_related("hub", "feed").get()


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while not await in_a_thread(holds)():
            await asyncio.sleep(0.02)


async def scanned(holds: Callable[[], object]) -> None:
    """Scans subscriptions until something has come of it."""
    async with asyncio.timeout(WAIT_SECONDS):
        await in_a_thread(scanning.scan)(datetime.now(UTC))
        while not await in_a_thread(holds)():
            await asyncio.sleep(0.02)
            await in_a_thread(scanning.scan)(datetime.now(UTC))


def is_in(state: State) -> Callable[[], bool]:
    return lambda: only().state == state.value


def titles() -> list[str]:
    return sorted(Entry.objects.values_list("title", flat=True))


def test_what_a_hub_delivers_is_stored_and_the_publisher_is_not_asked(hub: Hub) -> None:
    hub.method = "sha512"

    async def test(origin: Origin) -> None:
        topic = await announced(origin, hub)
        await scanned(is_in(State.VERIFIED))
        assert hub.only().topic == topic
        assert 0 < len(hub.only().secret) < 200
        origin.asked.clear()
        assert await in_a_thread(hub.deliver)(topic, rss("one", "two")) == [200]
        await gather()
        assert origin.asked == []

    gathered_from(test)
    assert titles() == ["one", "two"]
    assert only().arrived == 1


def test_a_hub_that_grants_less_is_asked_again_before_that_is_over(hub: Hub) -> None:
    hub.grants = 3600

    async def test(origin: Origin) -> None:
        await announced(origin, hub)
        await scanned(is_in(State.VERIFIED))
        found = await in_a_thread(only)()
        assert found.verified_at is not None
        assert found.expires_at == found.verified_at + timedelta(hours=1)
        assert found.due_at is not None
        assert found.due_at < found.expires_at
        secret, token = hub.only().secret, found.token
        await in_a_thread(lambda: Subscription.objects.update(due_at=datetime.now(UTC)))()
        await scanned(lambda: len(hub.verified) == 2)
        assert (hub.only().secret, (await in_a_thread(only)()).token) == (secret, token)

    gathered_from(test)
    assert [form["hub.lease_seconds"] for form in hub.asked] == ["864000", "864000"]


def outcome(status: int, *hops: int) -> Fetched | Failed:
    """What came of a request that was redirected by these."""
    led, timing = tuple(Hop("https://hub.example/", each) for each in hops), Timing(0, 1)
    if status < 300:
        return Fetched(Head(status, "https://hub.example/", CIMultiDict(), hops=led), Body(0, "", b""), timing)
    return Failed(Failure.PERMANENT, "it answered so", timing, status=status, hops=led)


def no_answer(status: int | None = None) -> Failed:
    """What came of a request that the hub may have taken."""
    return Failed(Failure.TOO_SLOW, "it did not answer", Timing(0, 1), status=status)


def left_behind(status: int) -> Missed:
    return Missed(f"the hub redirects by {status}, which leaves the request behind.")


@pytest.mark.parametrize(
    ("came", "expected"),
    [
        pytest.param(outcome(202), Awaited(hubs.VERIFIED_WITHIN), id="taken"),
        pytest.param(outcome(204, 307, 308), Awaited(hubs.VERIFIED_WITHIN), id="taken elsewhere"),
        pytest.param(outcome(200, 302), left_behind(302), id="302"),
        pytest.param(outcome(200, 308, 301), left_behind(301), id="301"),
        pytest.param(outcome(400), Refused("it answered so."), id="refused"),
        pytest.param(outcome(429), Missed("it answered so."), id="not now"),
        pytest.param(outcome(500), Missed("it answered so."), id="its failure"),
        pytest.param(no_answer(), Missed("it did not answer.", is_open=True), id="no answer"),
        pytest.param(no_answer(status=202), Missed("it did not answer.", is_open=True), id="half an answer"),
    ],
)
def test_what_a_hub_answers_is_understood(came: Fetched | Failed, expected: Answer) -> None:
    assert hubs.answer(Subscription(), came) == expected


def test_a_hub_that_denies_is_asked_again_after_long_and_its_reason_is_kept(hub: Hub) -> None:
    hub.denies = "Not for you"

    async def test(origin: Origin) -> None:
        await announced(origin, hub)
        await scanned(is_in(State.DENIED))

    gathered_from(test)
    assert "Not for you." in only().reason
    assert only().due_at - datetime.now(UTC) > timedelta(hours=5)  # type: ignore[operator]


def test_where_one_hub_says_no_the_next_is_asked(hub: Hub) -> None:
    async def test(origin: Origin) -> None:
        refusing = origin.does("/refusing", answer("403 Forbidden"))
        links = f'Link: <{refusing}>; rel="hub", <{hub.url}>; rel="hub", <{origin.url("/f")}>; rel="self"'
        await read(origin.does("/f", feed(rss("one"), links)))
        await scanned(lambda: hub.known)
        await scanned(lambda: Subscription.objects.filter(hub__url=hub.url, state=State.VERIFIED.value).exists())

    gathered_from(test)
    assert Subscription.objects.get(hub__url__endswith="/refusing").state != State.VERIFIED.value


def test_a_hub_that_takes_a_subscription_back_has_its_feed_polled_at_once(hub: Hub) -> None:
    async def test(origin: Origin) -> None:
        topic = await announced(origin, hub)
        await scanned(is_in(State.VERIFIED))
        later = {"is_pushed": True, "next_check_at": datetime.now(UTC) + DAY}
        await in_a_thread(lambda: Feed.objects.update(**later))()
        hub.denies = "Closed"
        await in_a_thread(hub.settle)({"hub.topic": topic, "hub.callback": hub.only().callback})
        assert await in_a_thread(is_in(State.DENIED))()

    gathered_from(test)
    assert not Feed.objects.get().is_pushed
    assert Feed.objects.get().next_check_at < datetime.now(UTC) + DAY / 2


@pytest.mark.parametrize("how", ["paused", "deleted"])
def test_a_subscription_ends_with_its_feed_and_the_hub_is_told(hub: Hub, how: str) -> None:
    def end() -> None:
        now, feeds = datetime.now(UTC), [Feed.objects.get().pk]
        (pausing.pause if how == "paused" else pausing.remove)(feeds, now)

    async def test(origin: Origin) -> None:
        topic = await announced(origin, hub)
        await scanned(is_in(State.VERIFIED))
        known = hub.only()
        await in_a_thread(end)()
        if how == "deleted":
            assert await in_a_thread(hub.deliver)(topic, rss("two")) == [410]
        hub.known[known.callback] = known
        await scanned(is_in(State.ENDED))
        assert [form["hub.mode"] for form in hub.asked] == ["subscribe", "unsubscribe"]
        assert not hub.known
        hub.known[known.callback] = known  # one that goes on all the same is told so
        assert await in_a_thread(hub.deliver)(topic, rss("two")) == [410]

    gathered_from(test)
    assert "two" not in titles()


def test_a_hub_without_tls_gets_no_secret_for_a_feed_that_has_it(hub: Hub) -> None:
    async def test(origin: Origin) -> None:
        topic = await announced(origin, hub)
        await in_a_thread(lambda: Feed.objects.update(url=topic.replace("http:", "https:")))()
        await scanned(is_in(State.VERIFIED))
        assert hub.only().secret == ""
        assert await in_a_thread(hub.deliver)(topic, rss("forged")) == [200]  # a ping: its body proves nothing

    gathered_from(test)
    assert Feed.objects.get().flagged_at is not None
    assert titles() == ["one"]
