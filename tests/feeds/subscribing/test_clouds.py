"""From a cloud in a feed to fresh entries by its pings: a real fetcher, real HTTP, a cloud of the test's own."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from feeds.models import Entry, Feed
from feeds.pushing.renewing import State
from feeds.subscribing import scanning
from feeds.subscriptions import Subscription
from tests.feeds.gathered import feed, gather, gathered_from, rss, subscribe
from tests.flows.cloud_server import Cloud, element
from tests.hostile.origin import Origin
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
