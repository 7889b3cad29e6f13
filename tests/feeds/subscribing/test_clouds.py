"""From a cloud in a feed to fresh entries by its pings: a real fetcher, real HTTP, a cloud of the test's own."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from django.db.models import F
from pytest_django import Settings

from feeds.callbacks import debouncing
from feeds.models import Entry, Feed
from feeds.pushing.renewing import State
from feeds.subscribing import scanning
from feeds.subscriptions import Subscription
from tests.feeds.gathered import feed, gather, gathered_from, rss, subscribe
from tests.flows.cloud_server import Cloud, element, notify
from tests.hostile.origin import Origin, answer
from tests.resources.fetching.fetchers import WAIT_SECONDS
from tests.resources.mirroring.gathering.mirrored import in_a_thread


async def offered(origin: Origin, cloud: Cloud, protocol: str = "http-post") -> str:
    """The URL of a feed with this cloud that somebody follows, and that has just been read."""
    url = origin.does("/f", feed(rss("one", more=element(cloud, protocol))))
    await in_a_thread(subscribe)(url, "a", subscriber_count=1)
    await gather()
    await in_a_thread(_is_recent)()
    return url


def _is_recent() -> None:
    Entry.objects.update(happened_at=datetime.now(UTC))


def only() -> Subscription:
    return Subscription.objects.select_related("hub").get()


async def asked(holds: Callable[[], bool]) -> None:
    """Scans once, and returns when something has come of it."""
    await in_a_thread(scanning.scan)(datetime.now(UTC))
    async with asyncio.timeout(WAIT_SECONDS):
        while not await in_a_thread(holds)():
            await asyncio.sleep(0.02)


def in_force() -> bool:
    return only().state == State.VERIFIED.value


@pytest.mark.parametrize("protocol", ["http-post", "xml-rpc"])
def test_a_feed_with_a_cloud_is_subscribed_verified_and_fetched_when_the_cloud_pings(
    cloud: Cloud, protocol: str
) -> None:
    async def test(origin: Origin) -> None:
        url = await offered(origin, cloud, protocol)
        await asked(in_force)
        found = await in_a_thread(only)()
        assert found.asked_at is not None
        assert found.expires_at == found.asked_at + timedelta(hours=25)
        origin.does("/f", feed(rss("one", "two", more=element(cloud, protocol))))
        assert await in_a_thread(cloud.ping)(url) == [True]
        await gather()

    gathered_from(test)
    assert sorted(Entry.objects.values_list("title", flat=True)) == ["one", "two"]
    assert Feed.objects.get().pushed_at is not None


def fetched_just_now() -> None:
    Feed.objects.update(fetch_began_at=datetime.now(UTC))


def pass_by(time: timedelta) -> None:
    Feed.objects.update(**{name: F(name) - time for name in ("flagged_at", "pushed_at", "fetch_began_at")})


def test_pings_while_the_feed_cools_down_have_it_fetched_once_when_that_is_over(
    cloud: Cloud, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.FEEDS_PUSH_COOL_SECONDS = 15
    scans: list[str] = []
    monkeypatch.setattr(debouncing.LATER, "soon", lambda: scans.append("later"))

    async def test(origin: Origin) -> None:
        url = await offered(origin, cloud)
        await asked(in_force)
        origin.does("/f", feed(rss("one", "two", more=element(cloud))))
        origin.asked.clear()
        await in_a_thread(fetched_just_now)()
        assert [await in_a_thread(cloud.ping)(url) for _ in range(3)] == [[True]] * 3
        await gather()
        assert (origin.asked, scans) == ([], ["later"])
        await in_a_thread(pass_by)(timedelta(seconds=15))
        for _ in range(2):
            await gather()
        assert len(origin.asked) == 1

    gathered_from(test)
    assert sorted(Entry.objects.values_list("title", flat=True)) == ["one", "two"]
    assert Feed.objects.get().flagged_at is None


def denied() -> bool:
    return only().state == State.DENIED.value


def due_now(**fields: object) -> None:
    Subscription.objects.update(due_at=datetime.now(UTC), **fields)


def test_a_refusal_in_an_answer_of_200_is_understood_and_asked_for_in_another_way(cloud: Cloud) -> None:
    cloud.wants_domain = False

    async def test(origin: Origin) -> None:
        await offered(origin, cloud)
        await asked(denied)
        found = await in_a_thread(only)()
        assert "calls back the address that asks" in found.reason
        await in_a_thread(due_now)()
        await asked(in_force)

    gathered_from(test)
    assert ["domain" in each for each in cloud.asked] == [True, False]
    assert len(cloud.registered) == 1


@pytest.mark.parametrize("speaks_json", [False, True])
def test_a_cloud_that_refuses_is_left_alone_for_hours(cloud: Cloud, speaks_json: bool) -> None:
    cloud.refuses, cloud.speaks_json = "The feed cannot be read.", speaks_json

    async def test(origin: Origin) -> None:
        await offered(origin, cloud)
        await asked(denied)
        await in_a_thread(due_now)()
        await asked(lambda: only().failures == 2)

    gathered_from(test)
    found = only()
    assert found.due_at is not None
    assert found.due_at > datetime.now(UTC) + timedelta(hours=5)
    assert "The feed cannot be read." in found.reason


def test_a_cloud_that_is_away_is_asked_again_and_nothing_is_in_force(cloud: Cloud) -> None:
    async def test(origin: Origin) -> None:
        cloud.url = origin.does("/gone", answer("500 Broken")).removesuffix("/gone")
        origin.does("/pleaseNotify", answer("500 Broken"))
        await offered(origin, cloud)
        await asked(lambda: only().failures == 1)

    gathered_from(test)
    found = only()
    assert (found.state, found.intent) == (State.WANTED.value, "")
    assert "500" in found.reason
    assert found.due_at is not None
    assert found.due_at > datetime.now(UTC) + timedelta(minutes=8)


def test_what_expires_is_renewed_before_and_the_cloud_goes_on_telling(cloud: Cloud) -> None:
    clock = [datetime.now(UTC)]
    cloud.now = lambda: clock[0]

    async def test(origin: Origin) -> None:
        url = await offered(origin, cloud)
        await asked(in_force)
        first = await in_a_thread(only)()
        clock[0] += timedelta(hours=24)
        assert len(cloud.subscribers(url)) == 1
        await in_a_thread(due_now)()
        await asked(lambda: only().asked_at != first.asked_at and not only().intent)
        clock[0] += timedelta(hours=24)
        assert len(cloud.subscribers(url)) == 1, "it would have been forgotten after 25 hours"
        clock[0] += timedelta(hours=2)
        assert cloud.subscribers(url) == []

    gathered_from(test)
    assert only().token in next(iter(cloud.registered))[1].url


def test_a_feed_that_is_told_to_be_another_is_not_believed(cloud: Cloud) -> None:
    """A cloud, or whoever has learnt the address of one subscription, cannot have other feeds fetched."""

    async def test(origin: Origin) -> None:
        url = await offered(origin, cloud)
        other = origin.does("/other", feed(rss("two")))
        await in_a_thread(subscribe)(other, "b", subscriber_count=1, next_check_at=datetime(2100, 1, 1, tzinfo=UTC))
        await asked(in_force)
        ((_, who),) = cloud.registered
        asked_before = len(origin.asked)
        assert not await in_a_thread(notify)(who, other)
        assert not await in_a_thread(notify)(replace(who, url=f"{who.url}x"), url)
        await gather()
        assert len(origin.asked) == asked_before

    gathered_from(test)
    assert not Feed.objects.filter(flagged_at__isnull=False).exists()
