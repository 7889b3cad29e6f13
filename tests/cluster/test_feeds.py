"""Feeds on three hosts: each fetched once a scan, and news that a hub pushes to any of them shown by all."""

from collections import Counter
from collections.abc import Iterator
from email.utils import formatdate
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import requests

from feeds import addresses, opml
from feeds.opml import ListedFeed
from feeds.push import websub

from ..support import feed_server, flask_hub
from ..support.feed_rows import NOW
from ..support.feed_server import FeedServers
from ..support.flask_hub import FlaskHub
from ..support.server import Handler, serving
from ..support.stack import eventually
from . import pages
from .hosts import Host
from .world import Cluster

SERVERS, FEEDS, ROUNDS = 3, 12, 3
SECONDS = 60
PATHS = [f"/{number}" for number in range(FEEDS)]
DUE = """
from datetime import UTC, datetime
from feeds.models import Feed
Feed.objects.filter(categories__slug="planet").update(next_check_at=datetime.now(UTC))
"""
LEFT = """
from datetime import UTC, datetime
from django.db.models import Q
from feeds.models import Feed
waiting = Q(handed_over_at__isnull=False) | Q(next_check_at__lte=datetime.now(UTC))
print(Feed.objects.filter(waiting, categories__slug="planet").count())
"""
FOLLOW = """
from datetime import UTC, datetime
from django.contrib.auth.models import User
from feeds import addresses
from feeds import catalogue, followers
feed, _ = catalogue.add_feed(addresses.read_address({url!r}), title="Pushed", now=datetime.now(UTC))
followers.follow_feeds(User.objects.get_or_create(username="pushed")[0].pk, [feed.pk], datetime.now(UTC))
"""
SUBSCRIBE = """
from datetime import UTC, datetime
from feeds.subscriptions import renewals
renewals.scan_subscriptions(datetime.now(UTC))
"""


@pytest.fixture
def origin(cluster: Cluster, a: Host, tmp_path: Path) -> Iterator[FeedServers]:
    """The servers of feeds that are listed on the first host."""
    with feed_server.running(SERVERS, cluster.network.gateway) as servers:
        urls = [f"{servers.urls[number % SERVERS]}{path}" for number, path in enumerate(PATHS)]
        rows = [ListedFeed(addresses.read_address(url), categories=(("Planet",),)) for url in urls]
        (tmp_path / "planet.opml").write_bytes(opml.write_opml(rows, "Planet", NOW))
        a.manage("import_opml", str(tmp_path / "planet.opml"))
        yield servers
        a.manage("shell", "-c", "from feeds.models import Feed; Feed.objects.all().delete()")


def test_three_beats_have_each_feed_fetched_once_a_scan(cluster: Cluster, a: Host, origin: FeedServers) -> None:
    assert all(host.pid("beat") for host in cluster.hosts)
    for number in range(1, ROUNDS + 1):
        eventually(lambda: a.manage("shell", "-v", "0", "-c", LEFT).split() == ["0"], SECONDS, "all feeds are read")
        assert Counter(origin.asked) == dict.fromkeys(PATHS, number)
        a.manage("shell", "-c", DUE)
    shown = [titles(host, "/feeds/category/planet.json?limit=200") for host in cluster.hosts]
    assert shown == [sorted(f"{path}/{name} first" for path in PATHS for name in origin.names)] * 3


def titles(host: Host, address: str) -> list[str]:
    answer = pages.get(host, address)
    return sorted(item["title"] for item in answer.json()["items"]) if answer.ok else []


def shows(host: Host, expected: list[str]) -> bool:
    return titles(host, "/feeds/pushed.json") == expected


class Publisher:
    """Its feed names a hub in a Link field."""

    def __init__(self, hub: FlaskHub) -> None:
        self.hub, self.url = hub.url, ""
        self.asked_by: list[str] = []

    @property
    def topic(self) -> str:
        return f"{self.url}/pushed"

    @property
    def links(self) -> str:
        return f'<{self.hub}>; rel="hub", <{self.topic}>; rel="self"'

    def document(self, *names: str) -> bytes:
        date = formatdate(usegmt=True)
        items = "".join(
            f"<item><guid>{name}</guid><title>{name}</title><pubDate>{date}</pubDate></item>" for name in names
        )
        return f"<rss version='2.0'><channel><title>Pushed</title>{items}</channel></rss>".encode()


@pytest.fixture
def publisher(cluster: Cluster, tmp_path: Path) -> Iterator[tuple[Publisher, FlaskHub]]:
    with flask_hub.running(tmp_path, cluster.network.gateway) as hub:
        found = Publisher(hub)

        class Feed(Handler):
            def do_GET(self) -> None:  # noqa: N802  as the library calls it
                found.asked_by.append(self.headers["User-Agent"])
                self.answer(200, found.document("one"), Link=found.links, Content_Type="application/rss+xml")

        with serving(Feed, (cluster.network.gateway, 0)) as found.url:
            yield found, hub


def test_news_pushed_to_one_host_of_a_feed_that_another_has_subscribed_to_shows_on_all(
    cluster: Cluster, a: Host, b: Host, publisher: tuple[Publisher, FlaskHub]
) -> None:
    origin, hub = publisher
    a.manage("shell", "-c", FOLLOW.format(url=origin.topic))
    eventually(lambda: titles(a, "/feeds/pushed.json") == ["one"], SECONDS, "the feed is read and served")
    a.manage("shell", "-c", SUBSCRIBE)
    eventually(lambda: hub.callbacks(origin.topic), SECONDS, "the site is subscribed at the hub")
    ((callback, secret),) = hub.callbacks(origin.topic).items()
    assert callback.startswith(cluster.base_url)

    origin.asked_by.clear()
    body = origin.document("one", "two")
    signed = {"X-Hub-Signature": websub.sign_body(body, secret), "Content-Type": "application/rss+xml"}
    address = f"{b.base_url}{urlsplit(callback).path}"
    assert requests.post(address, body, headers=signed, timeout=pages.SECONDS).status_code == 200
    for host in cluster.hosts:
        eventually(partial(shows, host, ["one", "two"]), SECONDS, f"{host.name} shows the news")
    assert not [agent for agent in origin.asked_by if "Tarry" in agent]
