"""Feeds on the whole site: scanned, fetched and served; fetched anew without bodies; killed in the middle of a scan."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from feeds import addresses
from feeds.opml import writing
from feeds.opml.outlines import Subscription
from tests.feeds.rows import NOW
from tests.flows import feed_server
from tests.flows.feed_server import FeedServers
from tests.flows.stack import Stack, eventually

FEEDS, SERVERS = 12, 4
PATHS = [f"/{number}" for number in range(FEEDS)]
FLAG = """
from datetime import UTC, datetime
from feeds.keeping import flagging
from feeds.models import Feed
flagging.flag(list(Feed.objects.filter(categories__slug="planet").values_list("pk", flat=True)), datetime.now(UTC))
"""


@pytest.fixture(scope="module")
def origin(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FeedServers]:
    """The servers of feeds that the site has read."""
    with feed_server.running(SERVERS) as servers:
        stack.manage("import_opml", str(listed(servers, tmp_path_factory.mktemp("feeds"))))
        eventually(lambda: served(stack) == expected(servers), 60, "all feeds are read and served")
        yield servers
        stack.manage("shell", "-c", "from feeds.models import Feed; Feed.objects.all().delete()")


def listed(servers: FeedServers, directory: Path) -> Path:
    urls = [f"{servers.urls[number % SERVERS]}{path}" for number, path in enumerate(PATHS)]
    rows = [Subscription(addresses.read(url), categories=(("Planet",),)) for url in urls]
    file = directory / "planet.opml"
    file.write_bytes(writing.write(rows, "Planet", NOW))
    return file


def served(stack: Stack) -> Counter[str]:
    """The titles of all entries, as they are served together; how often each."""
    answer = requests.get(f"{stack.base_url}/feeds/category/planet.json?limit=200", timeout=60)
    return Counter(item["title"] for item in answer.json()["items"]) if answer.ok else Counter()


def expected(servers: FeedServers) -> Counter[str]:
    """Each entry once, as the servers have it now."""
    return Counter(f"{path}/{name} {servers.edition}" for path in PATHS for name in servers.names)


def flag(stack: Stack) -> None:
    stack.manage("shell", "-c", FLAG)


def test_what_has_not_changed_is_asked_for_without_a_body_and_what_has_is_served_after_one_scan(
    stack: Stack, origin: FeedServers
) -> None:
    origin.asked.clear()
    origin.bodies.clear()
    flag(stack)
    eventually(lambda: sorted(origin.asked) == sorted(PATHS), 30, "all are asked again")
    assert origin.bodies == []

    origin.edition = "edited"
    flag(stack)
    eventually(lambda: served(stack) == expected(origin), 30, "the edits are served")
    assert sorted(origin.bodies) == sorted(PATHS)


def test_a_scan_whose_processes_are_killed_is_completed_with_nothing_twice_and_nothing_lost(
    stack: Stack, origin: FeedServers
) -> None:
    origin.gate.clear()
    origin.edition, origin.names = "after the kill", [*origin.names, "three"]
    origin.asked.clear()
    flag(stack)
    eventually(lambda: len(origin.asked) >= SERVERS, 30, "some are asked, and none has answered")
    for name in ("fetch", "work", "beat"):
        stack.kill(name, children=True)
    origin.gate.set()

    eventually(lambda: served(stack) == expected(origin), 90, "all are read")
