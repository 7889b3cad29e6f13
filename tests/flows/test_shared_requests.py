"""Requests of several kinds to one server, on the whole site: each is sent, and answered, by itself."""

from collections.abc import Iterator
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests

from ..support import guarded_server
from ..support.guarded_server import PAGE_OF_HUB, PUBLIC, GuardedServer, Question
from ..support.stack import Stack, eventually

FOLLOW = """
from datetime import UTC, datetime
from django.contrib.auth.models import User
from feeds import addresses
from feeds import catalogue, followers
feed, _ = catalogue.add_feed(addresses.read_address("{url}/open"), now=datetime.now(UTC))
followers.follow_feeds(User.objects.get_or_create(username="open")[0].pk, [feed.pk], datetime.now(UTC))
"""
SUBSCRIBE = """
from datetime import UTC, datetime
from feeds.subscriptions import renewals
renewals.scan_subscriptions(datetime.now(UTC))
"""
FEED = "from feeds.models import Feed; print(Feed.objects.get(url='{url}/feed').pk)"
SUBSCRIPTION = "from feeds.hub_models import Subscription; print(Subscription.objects.get(feed__url='{url}/open').pk)"
SEAL_HEADER = """
from resources.fetch import host_settings
from resources.fetch.models import FetchHeader
sealed = host_settings.seal_value("Bearer secret")
FetchHeader.objects.create(host="{host}", name="Authorization", sealed=sealed, over_http=True)
"""
FORGET_HEADER = """
from resources.fetch.models import FetchHeader
from resources.models import Layer
FetchHeader.objects.filter(host="{host}").delete()
Layer.objects.filter(slug="guarded").delete()
"""
FORGET = "from feeds.models import Feed; Feed.objects.filter(url__startswith='{url}').delete()"


@pytest.fixture
def origin(stack: Stack) -> Iterator[GuardedServer]:
    with guarded_server.running() as server:
        yield server
        stack.manage("shell", "-c", FORGET.format(url=server.url))


@pytest.fixture(scope="module")
def token(stack: Stack) -> str:
    return stack.manage("create_token", "stranger", "--mirror", "--feeds").strip()


def ask(stack: Stack, token: str, method: str, path: str, **body: Any) -> Any:
    headers = {"Authorization": f"Bearer {token}"}
    answer = requests.request(method, f"{stack.base_url}/api/{path}", headers=headers, json=body or None, timeout=30)
    assert answer.ok, answer.text
    return answer.json()


def number(stack: Stack, query: str, origin: GuardedServer) -> int:
    return int(stack.manage("shell", "-v", "0", "-c", query.format(url=origin.url)))


def mirrored(stack: Stack, token: str, batch: str) -> Any:
    """The digest of the only URL of the list, once that is settled."""
    eventually(lambda: ask(stack, token, "GET", f"batches/{batch}")["settled"], 60, "the list is settled")
    [item] = ask(stack, token, "GET", f"batches/{batch}")["items"]
    return item["digest"]


def digest(body: bytes) -> str:
    return sha256(body).hexdigest()


def test_a_reporter_gets_nothing_of_a_private_feed_that_is_being_fetched(
    stack: Stack, origin: GuardedServer, token: str
) -> None:
    ask(stack, token, "POST", "feeds", url=f"{origin.url.replace('//', '//ann:secret@')}/feed")
    eventually(lambda: Question("GET", "/feed", is_authorised=True) in origin.asked, 30, "the feed is being fetched")
    url = f"{origin.url}/feed#feed-{number(stack, FEED, origin)}"
    batch = ask(stack, token, "POST", "resources", urls=[url])["batch"]
    eventually(lambda: Question("GET", "/feed") in origin.asked, 30, "the reporter's request is one of its own")
    origin.gate.set()
    assert mirrored(stack, token, batch) == digest(PUBLIC)
    assert requests.get(f"{stack.base_url}/resources/{digest(origin.private)}", timeout=10).status_code == 404


def test_a_reporter_neither_reads_nor_replaces_a_request_to_a_hub(
    stack: Stack, origin: GuardedServer, token: str
) -> None:
    stack.manage("shell", "-c", FOLLOW.format(url=origin.url))

    def subscribes() -> bool:
        stack.manage("shell", "-c", SUBSCRIBE)
        return Question("POST", "/hub") in origin.asked

    eventually(subscribes, 60, "the hub is being asked for a subscription")
    url = f"{origin.url}/hub#{number(stack, SUBSCRIPTION, origin)}"
    batch = ask(stack, token, "POST", "resources", urls=[url])["batch"]
    eventually(lambda: Question("GET", "/hub") in origin.asked, 30, "the reporter's request is one of its own")
    origin.gate.set()
    assert mirrored(stack, token, batch) == digest(PAGE_OF_HUB)
    assert origin.asked.count(Question("POST", "/hub")) == 1


def test_a_file_that_is_too_large_for_a_feed_is_mirrored(stack: Stack, origin: GuardedServer, token: str) -> None:
    origin.size = 25_000_000
    slug = ask(stack, token, "POST", "feeds", url=f"{origin.url}/large")["slug"]
    eventually(lambda: origin.asked == [Question("GET", "/large")], 30, "the feed is being fetched")
    batch = ask(stack, token, "POST", "resources", urls=[f"{origin.url}/large"])["batch"]
    assert mirrored(stack, token, batch) == origin.large_digest
    origin.gate.set()
    eventually(lambda: "too big" in str(ask(stack, token, "GET", f"feeds/{slug}/health")), 30, "no feed is so large")


@pytest.fixture
def _header(stack: Stack, origin: GuardedServer) -> Iterator[None]:
    """A secret of the origin's host, and a layer of its tiles."""
    host = urlsplit(origin.url).netloc
    stack.manage("shell", "-c", SEAL_HEADER.format(host=host))
    stack.change_layers("load_layer", "guarded", "--upstream", f"{origin.url}/{{z}}/{{x}}/{{y}}.png")
    yield
    stack.change_layers("shell", "-c", FORGET_HEADER.format(host=host))


@pytest.mark.usefixtures("_header")
def test_the_secret_of_a_host_goes_to_no_url_that_a_token_names(
    stack: Stack, origin: GuardedServer, token: str
) -> None:
    origin.gate.set()

    def has_secret() -> bool:
        requests.get(f"{stack.base_url}/tiles/guarded/3/1/{len(origin.asked)}.png", timeout=60)
        return any(asked.is_authorised for asked in origin.asked)

    eventually(has_secret, 60, "the secret goes to the server of the layer")
    ask(stack, token, "POST", "feeds", url=f"{origin.url}/open")
    batch = ask(stack, token, "POST", "resources", urls=[f"{origin.url}/page"])["batch"]
    assert mirrored(stack, token, batch) == digest(PAGE_OF_HUB)
    eventually(lambda: Question("GET", "/open") in origin.asked, 30, "the feed is fetched")
    assert [asked.path for asked in origin.asked if asked.is_authorised and not asked.path.endswith(".png")] == []
