"""A ping beside other writers at the same moment."""

from datetime import UTC, datetime
from threading import Event, Thread
from typing import Any

import pytest
from django.db import connection, transaction

from feeds.models import Feed
from feeds.push.kinds import PushKind
from feeds.subscriptions import pings
from feeds.subscriptions.pings import PingResult
from tests.support.feed_rows import feed
from tests.support.feed_subscriptions import TOKEN, subscription

WAIT_SECONDS = 10


@pytest.mark.skipif(connection.vendor != "sqlite", reason="elsewhere nobody waits for those who write other rows")
def test_a_ping_waits_while_others_write_and_leaves_the_connection_as_it_was(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = feed("a")
    subscription(row)
    writing, waits = Event(), Event()
    real = pings._try_execute

    def watched(*arguments: Any) -> bool:
        was_written = real(*arguments)
        if not was_written:
            waits.set()
        return was_written

    def write() -> None:
        with transaction.atomic():
            Feed.objects.update(title="Another")
            writing.set()
            waits.wait(WAIT_SECONDS)
        connection.close()

    monkeypatch.setattr(pings, "_try_execute", watched)
    other = Thread(target=write)
    other.start()
    assert writing.wait(WAIT_SECONDS)
    assert pings.flag_pinged_feed(PushKind.RSSCLOUD, TOKEN, row.url, datetime.now(UTC)) is PingResult.FLAGGED
    other.join()
    assert waits.is_set()
    found = Feed.objects.get()
    assert found.title == "Another"
    assert found.flagged_at is not None
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA busy_timeout")
        assert cursor.fetchone() == (5000,)
