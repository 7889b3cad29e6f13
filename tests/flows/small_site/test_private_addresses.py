"""Addresses from strangers, at every door of the whole site: nothing ever connects to a private address behind them."""

import json
import re
import select
import socket
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests

from tests.support.crowd import Crowd
from tests.support.server import Handler, serving
from tests.support.stack import Stack, eventually

from .conftest import ORIGIN_ADDRESS

FORBIDDEN = "site does not fetch from"
DOORS = ("page", "hub", "cloud")
FOLLOW = """
from datetime import UTC, datetime
from django.contrib.auth.models import User
from feeds import addresses
from feeds import catalogue, followers
reader = User.objects.get_or_create(username="reader")[0].pk
for title, url in {feeds!r}.items():
    feed, _ = catalogue.add_feed(addresses.read_address(url), title=title, now=datetime.now(UTC))
    followers.follow_feeds(reader, [feed.pk], datetime.now(UTC))
"""
SUBSCRIBE = """
from datetime import UTC, datetime
from feeds.subscriptions import renewals
renewals.scan_subscriptions(datetime.now(UTC))
"""
KEPT = """
import json
from feeds.models import Feed
from feeds.hub_models import Subscription
print(json.dumps({
    "troubles": dict(Feed.objects.values_list("title", "trouble")),
    "fetched": list(Feed.objects.filter(fetched_at__isnull=False).values_list("title", flat=True).order_by("title")),
    "asked": dict(Subscription.objects.filter(failures__gt=0).values_list("feed__title", "reason")),
}))
"""


def is_visited(listening: socket.socket, seconds: float = 0) -> bool:
    """Tells whether any client has ever connected to the silent socket, or does so within that time."""
    return bool(select.select([listening], [], [], seconds)[0])


@pytest.fixture(scope="module")
def target(private: socket.socket) -> str:
    return f"http://127.0.0.1:{private.getsockname()[1]}"


@pytest.fixture(scope="module")
def origin(target: str) -> Iterator[str]:
    """A server that names the private one wherever it can; below `/away` it redirects there.

    Below `/by` it names itself, below `/away`.
    """

    class Leading(Handler):
        def do_GET(self) -> None:  # noqa: N802  as the library calls it
            here = f"http://{self.headers['Host']}"
            named = f"{here}/away" if self.path.startswith("/by/") else target
            if self.path.startswith("/away"):
                self.answer(302, b"", Location=f"{target}/away")
            elif self.path.endswith("/page"):
                page = f"<link rel='alternate' type='application/rss+xml' href='{named}/announced'>"
                self.answer(200, page.encode(), Content_Type="text/html")
            elif self.path.endswith("/hub"):
                links = f'<{named}/hub>; rel="hub", <{here}{self.path}>; rel="self"'
                self.answer(200, feed(named), Link=links, Content_Type="application/rss+xml")
            else:
                self.answer(200, feed(named, cloud(named)), Content_Type="application/rss+xml")

        def do_POST(self) -> None:  # noqa: N802  as the library calls it
            self.rfile.read(int(self.headers["Content-Length"]))
            self.answer(307, b"", Location=f"{target}/away")

    with serving(Leading, (ORIGIN_ADDRESS, 0)) as url:
        yield url


def feed(server: str, more: str = "") -> bytes:
    """One that names the server in all that may have an address."""
    entry = (
        f"<item><guid>1</guid><title>One</title><link>{server}/entry</link><comments>{server}/comments</comments>"
        f"<enclosure url='{server}/sound.mp3' type='audio/mpeg' length='9'/><source url='{server}/source'>S</source>"
        f"<description>&lt;p>A picture: &lt;img src='{server}/picture.png'></description></item>"
    )
    image = f"<image><url>{server}/icon.png</url><title>F</title><link>{server}</link></image>"
    channel = f"<channel><title>F</title><link>{server}</link>{image}{more}{entry}</channel>"
    return f"<rss version='2.0'>{channel}</rss>".encode()


def cloud(server: str) -> str:
    found = urlsplit(server)
    where = f"domain='{found.hostname}' port='{found.port}' path='{found.path}/'"
    return f"<cloud {where} registerProcedure='' protocol='http-post'/>"


@pytest.fixture(scope="module")
def token(stack: Stack) -> str:
    return stack.manage("create_token", "mirror", "--mirror").strip()


@pytest.fixture(autouse=True)
def _nobody_came(private: socket.socket) -> Iterator[None]:
    yield
    assert not is_visited(private)


@pytest.mark.no_database
def test_who_connects_would_be_seen() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        with closing(socket.create_connection(listening.getsockname())):
            pass
        assert is_visited(listening, seconds=5)


def test_tiles_of_an_upstream_layer(stack: Stack, crowd: Crowd, target: str, origin: str) -> None:
    with pytest.raises(RuntimeError, match=FORBIDDEN):
        stack.change_layers("load_layer", "named", "--upstream", f"{target}/{{z}}/{{x}}/{{y}}.png")
    stack.change_layers("load_layer", "away", "--upstream", f"{origin}/away/{{z}}/{{x}}/{{y}}.png")
    eventually(lambda: crowd.visit("/tiles/away.json").status == 200, 20, "main knows the layer")
    visit = crowd.visit("/tiles/away/3/1/2.png")
    assert visit.status == 502
    assert FORBIDDEN in visit.body.decode()


@pytest.mark.parametrize("by", ["", "/away"], ids=["named", "by a redirect"])
def test_mirrored_files_and_webhooks(stack: Stack, token: str, target: str, origin: str, by: str) -> None:
    def ask(method: str, path: str, **given: Any) -> Any:
        headers = {"Authorization": f"Bearer {token}"}
        answer = requests.request(method, f"{stack.base_url}/api/{path}", headers=headers, timeout=30, **given)
        assert answer.ok, answer.text
        return answer.json()

    server = origin + by if by else target
    sent = {"urls": [f"{server}/file", f"{origin}/page"], "webhook": f"{server}/told"}
    batch = ask("POST", "resources", json=sent)["batch"]
    eventually(lambda: FORBIDDEN in ask("GET", f"batches/{batch}")["webhook_stands"], 60, "the webhook was called")
    refused, fetched = ask("GET", f"batches/{batch}")["items"]
    assert FORBIDDEN in refused["reason"]
    assert fetched["step"] in ("new", "known")


def test_feeds_what_they_announce_and_who_is_to_tell_of_them(
    stack: Stack, crowd: Crowd, target: str, origin: str
) -> None:
    """And the pictures of their entries, which the site's own pages have it fetch."""
    feeds = {"named": f"{target}/feed", "away": f"{origin}/away/feed"}
    feeds |= {f"{door} {way}".strip(): f"{origin}/{way}{door}" for door in DOORS for way in ("", "by/")}
    stack.manage("shell", "-c", FOLLOW.format(feeds=feeds))

    def kept() -> Any:
        return json.loads(stack.manage("shell", "-v", "0", "-c", KEPT).splitlines()[-1])

    read = {title for title in feeds if title.startswith(("hub", "cloud"))}
    troubles = {title: "" if title in read else "FORBIDDEN" for title in feeds}
    eventually(lambda: kept()["troubles"] == troubles and {*kept()["fetched"]} == read, 60, "all were tried")
    stack.manage("shell", "-c", SUBSCRIBE)
    eventually(lambda: kept()["asked"].keys() == read, 60, "hubs and clouds were tried")
    assert all("is not global" in reason for reason in kept()["asked"].values())

    for slug in ("hub", "hub-by"):
        page = crowd.visit(f"/feeds/{slug}/").body.decode()
        pictures = set(re.findall(r'src="(/resources/[^"]+)"', page))
        assert pictures
        for picture in pictures:
            visit = crowd.visit(picture)
            assert visit.status == 502
            assert FORBIDDEN in visit.body.decode()
