"""Programs that follow entries of a whole site: by cursors, by the stream through nginx, by webhooks."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue
from threading import Thread
from typing import Any

import pytest
import requests
from standardwebhooks import Webhook

from ..support import file_server
from ..support.feed_copy import FeedCopy
from ..support.file_server import FileServer
from ..support.stack import Stack, eventually

SECONDS = 60
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def document(*titles: str) -> bytes:
    items = "".join(f"<item><guid isPermaLink='false'>{one}</guid><title>{one}</title></item>" for one in titles)
    return f"<rss version='2.0'><channel><title>Followed</title>{items}</channel></rss>".encode()


@pytest.fixture
def origin() -> Iterator[FileServer]:
    with file_server.running() as server:
        server.files = {"/followed": document("one", "two")}
        yield server


@pytest.fixture
def slug(stack: Stack, origin: FileServer) -> Iterator[str]:
    """A feed that has been read."""
    token = stack.manage("create_token", "syncing", "--feeds").strip()
    fields = {"Authorization": f"Bearer {token}"}
    url = f"{origin.url}/followed"
    answer = requests.post(f"{stack.base_url}/api/feeds", json={"url": url}, headers=fields, timeout=SECONDS)
    made: str = answer.json()["slug"]
    copy = copied(stack, made)
    eventually(lambda: count_entries(copy) == 2, SECONDS, "the feed is read")
    yield made
    stack.manage("shell", "-c", "from feeds.models import Feed; Feed.objects.all().delete()")
    stack.manage("shell", "-c", "from resources.tokens.models import ApiToken as T; T.objects.all().delete()")


def count_entries(copy: FeedCopy) -> int:
    copy.sync()
    return len(copy.entries)


def copied(stack: Stack, slug: str) -> FeedCopy:
    def get(path: str) -> tuple[int, Any]:
        answer = requests.get(f"{stack.base_url}{path}", timeout=SECONDS)
        return answer.status_code, answer.json()

    return FeedCopy(get, {"feed": slug})


def publish(stack: Stack, origin: FileServer, slug: str, *titles: str) -> None:
    """The publisher adds entries, and the feed is read at once."""
    origin.files = {"/followed": document(*titles)}
    flag = "from feeds.models import Feed; from feeds import feed_rows; from datetime import datetime, UTC; "
    stack.manage("shell", "-c", f"{flag}feed_rows.flag_feeds([Feed.objects.get(slug='{slug}').pk], datetime.now(UTC))")


def events(answer: requests.Response) -> Iterator[Any]:
    """The data of the events that come, as JSON."""
    for line in answer.iter_lines(chunk_size=1):
        if line.startswith(b"data: "):
            yield json.loads(line.removeprefix(b"data: "))


def titles(page: Any) -> list[str]:
    return [change["entry"]["title"] for change in page["changes"]]


def test_a_stream_tells_at_once_and_goes_on_after_a_reload(stack: Stack, origin: FileServer, slug: str) -> None:
    url = f"{stack.base_url}/api/entries/stream?feed={slug}"
    with requests.get(url, stream=True, timeout=SECONDS) as answer:
        assert answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        publish(stack, origin, slug, "one", "two", "three")
        coming = events(answer)
        page = next(coming)
        assert titles(page) == ["three"]
        stack.reload("retry")
        assert list(coming) == []  # it has ended
    publish(stack, origin, slug, "one", "two", "three", "four")
    fields = {"Last-Event-ID": page["cursor"]}
    with requests.get(url, stream=True, timeout=SECONDS, headers=fields) as answer:
        assert answer.status_code == 200
        assert titles(next(events(answer))) == ["four"]
    assert requests.get(f"{url}&changed_since=x", timeout=SECONDS).status_code == 422
    assert requests.post(url, timeout=SECONDS).status_code == 405


@pytest.fixture
def told() -> Iterator[tuple[str, "Queue[tuple[dict[str, str], bytes]]"]]:
    """A receiver's address, and its calls."""
    calls: Queue[tuple[dict[str, str], bytes]] = Queue()

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            calls.put((dict(self.headers), body))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *given: Any) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/told", calls
        server.shutdown()


def test_a_webhook_is_called_by_the_fetchers(
    stack: Stack, origin: FileServer, slug: str, told: tuple[str, "Queue[tuple[dict[str, str], bytes]]"]
) -> None:
    url, calls = told
    make = (
        "from feeds.change_rows import Webhook; from feeds import credentials, change_calls; "
        "from datetime import datetime, UTC; "
        f"made = Webhook.objects.create(name='mine', url='{url}', "
        f"sealed_secret=credentials.seal_password('{SECRET}')); change_calls.write_batches(made, datetime.now(UTC))"
    )
    stack.manage("shell", "-c", make)
    publish(stack, origin, slug, "one", "two", "five")
    headers, body = calls.get(timeout=SECONDS)
    found = Webhook(SECRET).verify(body, {name.lower(): value for name, value in headers.items()})
    assert titles(found["data"]) == ["five"]
