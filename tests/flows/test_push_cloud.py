"""Pushes by a cloud, on the whole site: registered for a reader of all feeds, verified, pinged, fetched; forged."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import requests

from feeds import addresses, opml
from feeds.opml import ListedFeed

from ..support import cloud_server, feed_server
from ..support.cloud_server import Cloud, Subscriber
from ..support.feed_rows import NOW
from ..support.feed_server import FeedServers
from ..support.stack import Stack, eventually

PATHS = [f"/told/{number}" for number in range(6)]
MINUTE_PASSES = """
from datetime import UTC, datetime
from feeds import followers
from feeds.subscriptions import renewals
followers.count_readers(datetime.now(UTC))
renewals.scan_subscriptions(datetime.now(UTC))
"""
REMOVE = """
from datetime import UTC, datetime
from feeds import lifecycle
from feeds.models import Feed
told = list(Feed.objects.filter(url__contains="/told/").values_list("pk", flat=True))
lifecycle.remove_feeds(told, datetime.now(UTC))
"""


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
    with cloud_server.running() as cloud:
        yield cloud


@pytest.fixture(scope="module")
def origin(stack: Stack, cloud: Cloud, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FeedServers]:
    """The servers of feeds that are read, and registered at the cloud that they name."""
    with feed_server.running(2) as servers:
        servers.more = cloud_server.element(cloud)
        stack.manage("import_opml", str(listed(servers, tmp_path_factory.mktemp("told"))))
        eventually(lambda: all(title in shown(stack) for title in expected(servers)), 60, "all feeds are read")
        requests.get(f"{stack.base_url}/feeds/all.atom", timeout=60).raise_for_status()
        eventually(lambda: any(stack.state.scan_iter("feeds:{0}:combination-readers:*")), 30, "its reader is noted")
        stack.manage("shell", "-c", MINUTE_PASSES)
        eventually(lambda: set(subscribers(cloud)) == set(urls(servers)), 60, "all are registered and verified")
        yield servers
        stack.manage("shell", "-c", REMOVE)


def urls(servers: FeedServers) -> list[str]:
    return [f"{servers.urls[number % len(servers.urls)]}{path}" for number, path in enumerate(PATHS)]


def listed(servers: FeedServers, directory: Path) -> Path:
    rows = [ListedFeed(addresses.read_address(url), categories=(("Told",),)) for url in urls(servers)]
    file = directory / "told.opml"
    file.write_bytes(opml.write_opml(rows, "Told", NOW))
    return file


def subscribers(cloud: Cloud) -> dict[str, Subscriber]:
    """The subscribers of each feed."""
    return dict(cloud.registered.keys())


def served(stack: Stack) -> Counter[str]:
    answer = requests.get(f"{stack.base_url}/feeds/category/told.json?limit=200", timeout=60)
    return Counter(item["title"] for item in answer.json()["items"]) if answer.ok else Counter()


def shown(stack: Stack) -> str:
    """The page for people, who are no readers by it."""
    return requests.get(f"{stack.base_url}/feeds/category/told/", timeout=60).text


def expected(servers: FeedServers) -> Counter[str]:
    return Counter(f"{path}/{name} {servers.edition}" for path in PATHS for name in servers.names)


def ping_all(cloud: Cloud, servers: FeedServers) -> list[bool]:
    """All of them at once."""
    with ThreadPoolExecutor(len(PATHS)) as pool:
        return [taken for each in pool.map(cloud.ping, urls(servers)) for taken in each]


def test_after_an_import_a_reader_of_all_feeds_has_each_subscribed_that_names_a_cloud(
    cloud: Cloud, origin: FeedServers
) -> None:
    assert set(subscribers(cloud)) == set(urls(origin))


def test_pings_at_once_have_each_feed_fetched_once_and_served_fresh(
    stack: Stack, cloud: Cloud, origin: FeedServers
) -> None:
    origin.asked.clear()
    origin.edition = "told"
    assert ping_all(cloud, origin) == [True] * len(PATHS)
    eventually(lambda: served(stack) == expected(origin), 30, "what they told of is served")
    assert sorted(origin.asked) == PATHS


def test_a_ping_that_was_taken_outlives_the_processes_that_act_on_it(
    stack: Stack, cloud: Cloud, origin: FeedServers
) -> None:
    origin.edition = "told before the kill"
    assert ping_all(cloud, origin) == [True] * len(PATHS)
    for name in ("main", "work", "beat", "fetch"):
        stack.kill(name, children=True)
    eventually(lambda: served(stack) == expected(origin), 90, "what they told of is served")


def test_forged_and_late_pings_are_refused_and_fetch_nothing(stack: Stack, cloud: Cloud, origin: FeedServers) -> None:
    first, second, *_ = urls(origin)
    to_us = subscribers(cloud)[first].url
    origin.asked.clear()
    origin.edition = "never told"
    forged = [
        (requests.post(to_us, data={"url": second}, timeout=10), 404),
        (requests.post(f"{to_us}x", data={"url": first}, timeout=10), 404),
        (requests.get(to_us, params={"url": second, "challenge": "forged"}, timeout=10), 404),
        (requests.post(to_us, data={"url": first, "more": "a" * 9000}, timeout=10), 413),
        (requests.post(to_us, json={"url": first}, timeout=10), 415),
    ]
    stack.manage("shell", "-c", REMOVE)
    forged.append((requests.post(to_us, data={"url": first}, timeout=10), 404))
    assert [answer.status_code for answer, _ in forged] == [status for _, status in forged]
    assert {answer.headers["Content-Type"] for answer, _ in forged} == {"application/problem+json"}
    assert origin.asked == []
