"""A hub that others have written is told of a change, asks this site for it, and delivers it to its subscribers."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from feeds import feed_rows
from feeds.models import Feed
from feeds.subscriptions import own_hub
from tests.hostile.origin import Origin
from tests.support import feed_rows as support_feed_rows
from tests.support import flask_hub
from tests.support.feed_rows import entry
from tests.support.feed_scans import wait_until
from tests.support.server import Handler, serving

from ..conftest import Workers


@contextmanager
def subscriber() -> Iterator[tuple[str, list[bytes]]]:
    """Confirms every verification; its URL, and the deliveries to it."""
    delivered: list[bytes] = []

    class Subscriber(Handler):
        def do_GET(self) -> None:  # noqa: N802  as the library calls it
            self.answer(200, parse_qs(urlsplit(self.path).query)["hub.challenge"][0].encode())

        def do_POST(self) -> None:  # noqa: N802
            delivered.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.answer(204, b"")

    with serving(Subscriber) as url:
        yield f"{url}/", delivered


def change(workers: Workers) -> None:
    """Something new comes, and its pages are rendered."""
    sea = Feed.objects.get(slug="sea")
    support_feed_rows.add(sea, entry(2))
    feed_rows.touch_feeds([sea.pk], datetime.now(UTC))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("retry.lanes.publish_work", lambda *call: workers.calls.append(call))
        own_hub.announce_changes(datetime.now(UTC))
    workers.work()


@pytest.mark.usefixtures("gathering")
def test_what_changes_is_delivered_by_the_hub_to_its_subscribers(
    live_server: LiveServer, settings: Settings, tmp_path: Path, origin: Origin
) -> None:
    topic = f"{live_server.url}/feeds/sea.atom"
    support_feed_rows.feed("sea", entry(1))
    with flask_hub.running(tmp_path) as hub, subscriber() as (callback, delivered):
        settings.PUBLIC_URL, settings.FEEDS_HUB = live_server.url, hub.url
        hub.ask("subscribe", topic, callback=callback)
        wait_until(lambda: hub.callbacks(topic))
        change(Workers())
        own_hub.announce_changes(datetime.now(UTC) + timedelta(seconds=5))
        wait_until(lambda: delivered)
        assert b"Entry 2" in delivered[0]
