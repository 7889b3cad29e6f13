"""Push as it is without a setting, on the whole site: subscribed where others seem to reach it, else said once."""

from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path
from urllib.parse import parse_qs

import pytest
import requests

from ..support.server import Handler, serving
from ..support.stack import Stack, eventually

PUBLIC_URL = "https://tarry.example.org"
PASS = """
from celery import current_app
for task in ("feeds.count_readers", "feeds.subscribe"):
    current_app.send_task(task, queue="work", ignore_result=True)
"""
"""The passes that beat starts every minute."""


class Publisher:
    """A feed that announces the hub at the same server, and what was asked of that one."""

    def __init__(self) -> None:
        self.url = ""
        self.requests = 0
        self.asked: list[dict[str, list[str]]] = []

    def document(self) -> bytes:
        entry = f"<item><guid>1</guid><title>one</title><pubDate>{formatdate(usegmt=True)}</pubDate></item>"
        return f"<rss version='2.0'><channel><title>Sea</title>{entry}</channel></rss>".encode()


@pytest.fixture
def publisher() -> Iterator[Publisher]:
    found = Publisher()

    class Feed(Handler):
        def do_GET(self) -> None:  # noqa: N802  as the library calls it
            found.requests += 1
            links = f'<{found.url}/hub>; rel="hub", <{found.url}/feed>; rel="self"'
            self.answer(200, found.document(), Link=links, Content_Type="application/rss+xml")

        def do_POST(self) -> None:  # noqa: N802  as the library calls it
            found.asked.append(parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode()))
            self.answer(202, b"")

    with serving(Feed) as found.url:
        yield found


@pytest.fixture
def stack() -> Iterator[Stack]:
    with Stack(PUBLIC_URL=PUBLIC_URL, FEEDS_PUSH="") as running:
        yield running


def test_a_feed_of_an_imported_list_is_subscribed_for_a_reader_of_all(
    stack: Stack, publisher: Publisher, tmp_path: Path
) -> None:
    (tmp_path / "feeds.opml").write_text(
        f'<opml version="2.0"><body><outline type="rss" xmlUrl="{publisher.url}/feed"/></body></opml>'
    )
    stack.manage("import_opml", str(tmp_path / "feeds.opml"))

    def is_read() -> bool:
        return "one" in requests.get(f"{stack.base_url}/feeds/all.atom", timeout=60).text

    eventually(is_read, 60, "somebody reads all feeds")

    def is_subscribed() -> bool:
        stack.manage("shell", "-c", PASS)
        return bool(publisher.asked)

    eventually(is_subscribed, 60, "its hub is asked for a subscription")
    [asked] = publisher.asked
    assert (asked["hub.mode"], asked["hub.topic"]) == (["subscribe"], [f"{publisher.url}/feed"])
    assert asked["hub.callback"][0].startswith(f"{PUBLIC_URL}/websub/")
    assert publisher.requests <= 2
    assert "polled only" not in stack.output.read_text()
