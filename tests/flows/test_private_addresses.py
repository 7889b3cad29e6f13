"""What strangers name, at every door of the whole site: nothing ever connects to an address behind it."""

import json
import select
import socket
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
import requests

from tests.flows.crowd import Crowd
from tests.flows.running_server import Handler, serving
from tests.flows.stack import Stack, eventually

ORIGIN_ADDRESS = "127.0.0.2"
"""The one server that the site may ask. What it says leads to another, which the site must leave alone."""
FOLLOW = """
from datetime import UTC, datetime
from django.contrib.auth.models import User
from feeds import addresses
from feeds.keeping import adding, following
reader = User.objects.get_or_create(username="reader")[0].pk
for title, url in {feeds!r}.items():
    feed, _ = adding.add(addresses.read(url), title=title, now=datetime.now(UTC))
    following.follow(reader, [feed.pk], datetime.now(UTC))
"""
SUBSCRIBE = """
from datetime import UTC, datetime
from feeds.subscribing import scanning
scanning.scan(datetime.now(UTC))
"""
KEPT = """
import json
from feeds.models import Feed
from feeds.subscriptions import Subscription
print(json.dumps({
    "troubles": dict(Feed.objects.values_list("title", "trouble")),
    "fetched": list(Feed.objects.filter(fetched_at__isnull=False).values_list("title", flat=True).order_by("title")),
    "asked": dict(Subscription.objects.filter(failures__gt=0).values_list("feed__title", "reason")),
}))
"""


@pytest.fixture(scope="module")
def private() -> Iterator[socket.socket]:
    """Listens, and accepts nobody: who connects stays to be seen."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


@pytest.fixture(scope="module")
def target(private: socket.socket) -> str:
    return f"http://127.0.0.1:{private.getsockname()[1]}"


@pytest.fixture(scope="module")
def stack(private: socket.socket) -> Iterator[Stack]:
    """A site that may ask the origin alone, and any server for the port: it is the address that is refused."""
    ports = f"80,443,{private.getsockname()[1]}"
    with Stack(SMALL="1", FETCH_ALLOW_PRIVATE=f"{ORIGIN_ADDRESS}/32", FETCH_PORTS=ports) as running:
        yield running


@pytest.fixture(scope="module")
def origin(target: str) -> Iterator[str]:
    """A server that names the private one wherever it can, and sends there who asks below `/away`."""

    class Leading(Handler):
        def do_GET(self) -> None:  # noqa: N802  as the library calls it
            if self.path.startswith("/away"):
                self.answer(302, b"", Location=f"{target}/away")
            elif self.path == "/page":
                page = (
                    f"<title>A page</title><link rel='alternate' type='application/rss+xml' href='{target}/announced'>"
                )
                self.answer(200, page.encode(), Content_Type="text/html")
            elif self.path == "/hub":
                links = f'<{target}/hub>; rel="hub", <http://{self.headers["Host"]}/hub>; rel="self"'
                self.answer(200, feed(target), Link=links, Content_Type="application/rss+xml")
            else:
                host, _, port = target.removeprefix("http://").partition(":")
                cloud = f"<cloud domain='{host}' port='{port}' path='/' registerProcedure='' protocol='http-post'/>"
                self.answer(200, feed(target, cloud), Content_Type="application/rss+xml")

    with serving(Leading, (ORIGIN_ADDRESS, 0)) as url:
        yield url


def feed(target: str, more: str = "") -> bytes:
    """One that names the server in all that may have an address."""
    entry = (
        f"<item><guid>1</guid><title>One</title><link>{target}/entry</link><comments>{target}/comments</comments>"
        f"<enclosure url='{target}/sound.mp3' type='audio/mpeg' length='9'/><source url='{target}/source'>S</source>"
        f"<description>&lt;img src='{target}/picture.png' srcset='{target}/2x.png 2x'&gt;</description></item>"
    )
    image = f"<image><url>{target}/icon.png</url><title>F</title><link>{target}</link></image>"
    channel = f"<channel><title>F</title><link>{target}</link>{image}{more}{entry}</channel>"
    return f"<rss version='2.0'>{channel}</rss>".encode()


@pytest.fixture(autouse=True)
def _nobody_came(private: socket.socket) -> Iterator[None]:
    yield
    assert not select.select([private], [], [], 0)[0], "somebody has connected"


@pytest.mark.no_database
def test_who_connects_would_be_seen() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        with closing(socket.create_connection(listening.getsockname())):
            pass
        assert select.select([listening], [], [], 5)[0]


def test_tiles_of_an_upstream_layer(stack: Stack, crowd: Crowd, target: str, origin: str) -> None:
    with pytest.raises(RuntimeError, match="This site does not fetch from there"):
        stack.manage("load_layer", "named", "--upstream", f"{target}/{{z}}/{{x}}/{{y}}.png")
    stack.manage("load_layer", "away", "--upstream", f"{origin}/away/{{z}}/{{x}}/{{y}}.png")
    eventually(lambda: crowd.visit("/tiles/away.json").status == 200, 20, "main knows the layer")
    visit = crowd.visit("/tiles/away/3/1/2.png")
    assert visit.status == 502
    assert "one that this site does not fetch from" in visit.body.decode()


def test_mirrored_files_and_webhooks(stack: Stack, target: str, origin: str) -> None:
    token = stack.manage("create_token", "mirror", "--mirror").strip()

    def ask(method: str, path: str, **given: Any) -> Any:
        headers = {"Authorization": f"Bearer {token}"}
        answer = requests.request(method, f"{stack.base_url}/api/{path}", headers=headers, timeout=30, **given)
        assert answer.ok, answer.text
        return answer.json()

    urls = [f"{target}/file", f"{origin}/away/file", f"{origin}/page"]
    batch = ask("POST", "resources", json={"urls": urls, "webhook": f"{target}/told"})["batch"]
    eventually(lambda: ask("GET", f"batches/{batch}")["settled"] == 3, 60, "all were fetched")
    eventually(lambda: "does not fetch from" in ask("GET", f"batches/{batch}")["webhook_stands"], 60, "it was tried")
    found = ask("GET", f"batches/{batch}")
    assert [item["step"] for item in found["items"]] == ["failed", "failed", "new"]


def test_feeds_what_they_announce_and_who_is_to_tell_of_them(stack: Stack, target: str, origin: str) -> None:
    feeds = {
        "named": f"{target}/feed",
        "away": f"{origin}/away",
        **{each: f"{origin}/{each}" for each in ("page", "hub", "cloud")},
    }
    stack.manage("shell", "-c", FOLLOW.format(feeds=feeds))

    def kept() -> Any:
        return json.loads(stack.manage("shell", "-v", "0", "-c", KEPT).splitlines()[-1])

    troubles = {"named": "FORBIDDEN", "away": "FORBIDDEN", "page": "FORBIDDEN", "hub": "", "cloud": ""}
    eventually(lambda: kept()["troubles"] == troubles and kept()["fetched"] == ["cloud", "hub"], 60, "all were tried")
    stack.manage("shell", "-c", SUBSCRIBE)
    eventually(lambda: kept()["asked"].keys() == {"hub", "cloud"}, 60, "hub and cloud were tried")
    served = [requests.get(f"{stack.base_url}/feeds/{page}", timeout=60).text for page in ("hub.atom", "cloud.json")]
    assert all("picture.png" in page and "sound.mp3" in page for page in served)
