"""A ping and whoever else writes at that moment."""

from datetime import UTC, datetime
from threading import Event, Thread
from typing import Any

import pytest
from django.db import connection, transaction

from feeds.keeping import pushes
from feeds.keeping.pushes import Pushed
from feeds.models import Feed
from feeds.pushing.discovering import Kind
from tests.feeds.rows import feed
from tests.feeds.subscribed import TOKEN, subscription

WAIT_SECONDS = 10


@pytest.mark.skipif(connection.vendor != "sqlite", reason="elsewhere nobody waits for those who write other rows")
def test_a_ping_waits_while_others_write_and_leaves_the_connection_as_it_was(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = feed("a")
    subscription(row)
    writing, waits = Event(), Event()
    real = pushes._was_written

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

    monkeypatch.setattr(pushes, "_was_written", watched)
    other = Thread(target=write)
    other.start()
    assert writing.wait(WAIT_SECONDS)
    assert pushes.push(Kind.RSSCLOUD, TOKEN, row.url, datetime.now(UTC)) is Pushed.FLAGGED
    other.join()
    assert waits.is_set()
    found = Feed.objects.get()
    assert found.title == "Another"
    assert found.flagged_at is not None
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA busy_timeout")
        assert cursor.fetchone() == (5000,)
