"""Deliveries by a hub that others have written, on the whole site: subscribed, taken, served; forged and refused."""

from collections.abc import Iterator
from email.utils import formatdate

import pytest
import requests

from feeds.push import websub

from ..support import flask_hub
from ..support.flask_hub import FlaskHub
from ..support.server import Handler, serving
from ..support.stack import Stack, eventually

FOLLOW = """
from datetime import UTC, datetime
from django.contrib.auth.models import User
from feeds import addresses
from feeds import catalogue, followers
feed, _ = catalogue.add_feed(addresses.read_address({url!r}), title="Delivered", now=datetime.now(UTC))
followers.follow_feeds(User.objects.get_or_create(username="delivered")[0].pk, [feed.pk], datetime.now(UTC))
"""
SUBSCRIBE = """
from datetime import UTC, datetime
from feeds.subscriptions import renewals
renewals.scan_subscriptions(datetime.now(UTC))
"""
FORGET_DELIVERIES = """
from retry import stores
state = stores.fast_client("state")
for key in state.scan_iter("feeds:heard:*"):
    state.delete(key)
"""
REMOVE = """
from datetime import UTC, datetime
from feeds import lifecycle
from feeds.models import Feed
lifecycle.remove_feeds([Feed.objects.get(slug="delivered").pk], datetime.now(UTC))
"""


class Publisher:
    """Its feed names a hub in a Link field. `asked_by` are the agents that asked for it."""

    def __init__(self, hub: FlaskHub) -> None:
        self.hub, self.url = hub.url, ""
        self.titles = ["one"]
        self.asked_by: list[str] = []

    @property
    def topic(self) -> str:
        return f"{self.url}/delivered"

    @property
    def links(self) -> str:
        return f'<{self.hub}>; rel="hub", <{self.topic}>; rel="self"'

    def asked_by_tarry(self) -> int:
        """The number of its requests since the list was emptied."""
        return sum("Tarry" in agent for agent in self.asked_by)

    def document(self) -> bytes:
        date = formatdate(usegmt=True)
        items = "".join(
            f"<item><guid>{each.split()[0]}</guid><title>{each}</title><pubDate>{date}</pubDate></item>"
            for each in self.titles
        )
        return f"<rss version='2.0'><channel><title>Sea</title>{items}</channel></rss>".encode()


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlaskHub]:
    with flask_hub.running(tmp_path_factory.mktemp("hub")) as running:
        yield running


@pytest.fixture(scope="module")
def publisher(stack: Stack, hub: FlaskHub) -> Iterator[Publisher]:
    """One whose feed the site has read, and is subscribed to."""
    found = Publisher(hub)

    class Feed(Handler):
        def do_GET(self) -> None:  # noqa: N802  as the library calls it
            found.asked_by.append(self.headers["User-Agent"])
            self.answer(200, found.document(), Link=found.links, Content_Type="application/rss+xml")

    with serving(Feed) as found.url:
        stack.manage("shell", "-c", FOLLOW.format(url=found.topic))
        eventually(lambda: served(stack) == ["one"], 60, "the feed is read and served")
        stack.manage("shell", "-c", SUBSCRIBE)
        eventually(lambda: hub.callbacks(found.topic), 30, "the site is subscribed at the hub")
        yield found


def served(stack: Stack) -> list[str]:
    """The titles of the entries."""
    answer = requests.get(f"{stack.base_url}/feeds/delivered.json", timeout=60)
    return sorted(item["title"] for item in answer.json()["items"]) if answer.ok else []


def test_what_is_told_to_the_hub_is_served_without_asking_the_publisher(
    stack: Stack, hub: FlaskHub, publisher: Publisher
) -> None:
    publisher.asked_by.clear()
    publisher.titles.append("two")
    hub.ask("publish", publisher.topic)
    eventually(lambda: served(stack) == ["one", "two"], 30, "what the hub has delivered is served")
    assert publisher.asked_by_tarry() == 0


def test_a_captured_delivery_reverts_no_edit_though_its_signature_holds(
    stack: Stack, hub: FlaskHub, publisher: Publisher
) -> None:
    ((callback, secret),) = hub.callbacks(publisher.topic).items()
    captured = publisher.document()
    publisher.titles[1] = "two edited"
    hub.ask("publish", publisher.topic)
    eventually(lambda: served(stack) == ["one", "two edited"], 30, "the publisher has confirmed the edit")

    stack.manage("shell", "-c", FORGET_DELIVERIES)
    publisher.asked_by.clear()
    signed = {"X-Hub-Signature": websub.sign_body(captured, secret), "Content-Type": "application/rss+xml"}
    assert requests.post(callback, captured, headers=signed, timeout=10).status_code == 200
    eventually(publisher.asked_by_tarry, 30, "the publisher is asked")
    assert served(stack) == ["one", "two edited"]


def test_what_the_hub_has_not_signed_is_refused_and_what_comes_after_the_feed_is_gone(
    stack: Stack, hub: FlaskHub, publisher: Publisher
) -> None:
    ((callback, secret),) = hub.callbacks(publisher.topic).items()
    assert 32 <= len(secret) < 200
    forged = publisher.document().replace(b"edited", b"forged")
    sent = requests.post(callback, data=forged, headers={"X-Hub-Signature": "sha256=00"}, timeout=10)
    assert (sent.status_code, sent.headers["Content-Type"]) == (403, "application/problem+json")
    assert requests.post(callback, data=b"x" * 3_000_000, timeout=10).status_code == 413
    assert requests.post(f"{callback}x", data=forged, timeout=10).status_code == 404
    assert served(stack) == ["one", "two edited"]

    stack.manage("shell", "-c", REMOVE)
    hub.ask("publish", publisher.topic)
    eventually(lambda: not hub.callbacks(publisher.topic), 30, "the hub has been told that this is gone")
