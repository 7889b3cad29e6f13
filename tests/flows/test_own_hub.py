"""This site as the hub and the cloud of its own feeds, whole: found, verified, told of changes, also through kills."""

import re
from collections.abc import Iterator
from email.utils import formatdate

import pytest
import requests
from lxml import etree

from ..support import subscriber_server
from ..support.server import Handler, serving
from ..support.stack import Stack, eventually
from ..support.subscriber_server import CallbackSite

ADD = """
from datetime import UTC, datetime
from feeds import addresses, catalogue
catalogue.add_feed(addresses.read_address({url!r}), title="Told", now=datetime.now(UTC))
"""
FLAG = """
from datetime import UTC, datetime
from feeds import feed_rows
from feeds.models import Feed
feed_rows.flag_feeds(list(Feed.objects.values_list("pk", flat=True)), datetime.now(UTC))
"""
SECRET = "known to both"


class Publisher:
    """A feed elsewhere that this site reads."""

    def __init__(self) -> None:
        self.url, self.entries = "", 1

    def document(self) -> bytes:
        date = formatdate(usegmt=True)
        item = "<item><guid>{0}</guid><title>entry {0}</title><pubDate>{1}</pubDate></item>"
        items = "".join(item.format(number, date) for number in range(self.entries))
        return f"<rss version='2.0'><channel><title>Sea</title>{items}</channel></rss>".encode()


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with Stack(FEEDS_HUB="self", FEEDS_HUB_SECONDS="1", FEEDS_HUB_ANSWER_SECONDS="2") as running:
        yield running


@pytest.fixture(scope="module")
def publisher(stack: Stack) -> Iterator[Publisher]:
    found = Publisher()

    class Feed(Handler):
        def do_GET(self) -> None:  # noqa: N802  as the library calls it
            self.answer(200, found.document(), Content_Type="application/rss+xml")

    with serving(Feed) as found.url:
        stack.manage("shell", "-c", ADD.format(url=f"{found.url}/feed"))
        eventually(lambda: "entry 0" in page(stack, "told.atom").text, 60, "the feed is read and served")
        yield found


@pytest.fixture
def reader() -> Iterator[CallbackSite]:
    with subscriber_server.running() as site:
        yield site


@pytest.fixture
def control() -> Iterator[CallbackSite]:
    """A second reader: what it was told of, the first one was told of too, or never will be."""
    with subscriber_server.running() as site:
        yield site


def page(stack: Stack, name: str) -> requests.Response:
    return requests.get(f"{stack.base_url}/feeds/{name}", timeout=60)


def publish(stack: Stack, publisher: Publisher) -> str:
    """The publisher has another entry, and this site looks. Returns the entry's title."""
    publisher.entries += 1
    stack.manage("shell", "-c", FLAG)
    return f"entry {publisher.entries - 1}"


def hub_and_topic(answer: requests.Response) -> tuple[str, str]:
    """By the Link field, as a subscriber finds them."""
    links = {relation: url for url, relation in re.findall(r'<([^>]+)>; rel="(\w+)"', answer.headers["Link"])}
    return links["hub"], links["self"]


def subscribe(site: CallbackSite, answer: requests.Response, mode: str = "subscribe") -> None:
    hub, topic = hub_and_topic(answer)
    before = len(site.asked)
    assert site.subscribe(hub, topic, mode, secret=SECRET).status_code == 202
    eventually(lambda: len(site.asked) > before, 30, "the callback is asked")
    assert site.asked[-1]["hub.topic"] == topic


def told(site: CallbackSite, title: str) -> bool:
    return any(title.encode() in each.body for each in site.delivered)


def test_a_subscriber_gets_signed_pages_of_feeds_and_combinations_through_kills_and_none_after_its_end(
    stack: Stack, publisher: Publisher, reader: CallbackSite, control: CallbackSite
) -> None:
    feed, everything = page(stack, "told.atom"), page(stack, "all.json")
    subscribe(reader, feed)
    subscribe(control, everything)
    title = publish(stack, publisher)
    for site in (reader, control):
        eventually(lambda: told(site, title), 60, "it is delivered")  # noqa: B023  called at once
        assert all(each.is_signed_with(SECRET) for each in site.delivered)
    assert reader.delivered[-1].headers["Content-Type"] == feed.headers["Content-Type"]
    assert reader.delivered[-1].headers["Link"] == feed.headers["Link"]

    title = publish(stack, publisher)
    for name in ("work", "fetch", "beat"):
        stack.kill(name, children=True)
    for site in (reader, control):
        eventually(lambda: told(site, title), 180, "it is delivered after kills")  # noqa: B023

    subscribe(reader, feed, "unsubscribe")
    eventually(lambda: "ended" in stack.manage("shell", "-c", STATES), 30, "its end is stored")
    reader.delivered.clear()
    title = publish(stack, publisher)
    eventually(lambda: told(control, title), 60, "it is delivered to the other one")
    assert reader.delivered == []


STATES = """
from feeds.hub_models import Subscriber
print(list(Subscriber.objects.values_list("state", flat=True)))
"""


def test_a_silent_subscriber_delays_no_other(
    stack: Stack, publisher: Publisher, reader: CallbackSite, control: CallbackSite
) -> None:
    for site in (reader, control):
        subscribe(site, page(stack, "told.rss"))
    reader.mood = "silent"
    title = publish(stack, publisher)
    eventually(lambda: told(control, title), 60, "it is delivered to the other one")
    eventually(lambda: "Not delivered" in stack.manage("shell", "-c", REASONS), 60, "the failure is noted")


REASONS = """
from feeds.hub_models import Subscriber
print(list(Subscriber.objects.values_list("reason", flat=True)))
"""


def test_a_registered_subscriber_is_pinged_and_finds_the_new_entry_at_once(
    stack: Stack, publisher: Publisher, reader: CallbackSite
) -> None:
    root = etree.fromstring(page(stack, "told.rss").content)
    (cloud,) = root.findall("channel/cloud")
    assert (cloud.get("protocol"), cloud.get("registerProcedure")) == ("http-post", "")
    server = f"http://{cloud.get('domain')}:{cloud.get('port')}{cloud.get('path')}"
    topic = hub_and_topic(page(stack, "told.rss"))[1]
    answer = reader.register(server, topic)
    assert (answer.status_code, 'success="true"' in answer.text) == (200, True)
    eventually(lambda: reader.asked, 30, "its domain is verified by a challenge")
    assert reader.asked[0]["url"] == topic
    title = publish(stack, publisher)
    eventually(lambda: reader.delivered, 60, "it is pinged")
    assert reader.delivered[0].pinged_url == topic
    assert title in page(stack, "told.rss").text
