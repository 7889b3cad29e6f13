"""Tallies: gathered by the process, added up in the database."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection

from resources.mirror import stats
from resources.mirror.models import Tally
from tests.support.mirror_rows import NOW

from .conftest import raising

pytestmark = pytest.mark.django_db


def counted() -> dict[tuple[str, str], int]:
    return {(f"{row.hour:%H}", row.step): row.number for row in Tally.objects.all()}


@pytest.fixture
def gathering(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts are gathered, and written when a test says so."""
    settings.MIRROR_TALLY_SECONDS = 1
    monkeypatch.setattr(stats, "_write_forever", lambda: None)
    stats._buffer.forget()


def test_counts_add_up_by_hour(gathering: None) -> None:
    for at in (NOW, NOW + timedelta(minutes=20), NOW + timedelta(hours=1)):
        stats.count_urls("new", 2, at)
    stats.count_urls("known", 5, NOW)
    assert not Tally.objects.exists()
    stats.flush_tallies()
    assert counted() == {("10", "new"): 4, ("11", "new"): 2, ("10", "known"): 5}
    stats.count_urls("new", 1, NOW)
    stats.flush_tallies()
    stats.flush_tallies()
    assert counted()["10", "new"] == 5


def test_what_the_database_does_not_take_is_written_later(gathering: None) -> None:
    stats.count_urls("new", 2, NOW)
    with connection.execute_wrapper(raising(OperationalError("database is locked"))):
        stats.flush_tallies()
    stats.count_urls("new", 1, NOW)
    stats.flush_tallies()
    assert counted() == {("10", "new"): 3}


def test_many_who_count_at_once_lose_nothing(gathering: None) -> None:
    def count() -> None:
        for _ in range(500):
            stats.count_urls("new", 1, NOW)

    with ThreadPoolExecutor(4) as threads:
        for _ in range(4):
            threads.submit(count)
    stats.flush_tallies()
    assert counted() == {("10", "new"): 2000}


@pytest.mark.django_db(transaction=True)
def test_the_process_writes_by_itself(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.MIRROR_TALLY_SECONDS = 0.01
    written, add = threading.Event(), stats.add_tallies

    def noted(counts: Any) -> None:
        add(counts)
        connection.close()
        written.set()

    stats._buffer.forget()
    monkeypatch.setattr(stats, "add_tallies", noted)
    stats.count_urls("new", 2, NOW)
    assert written.wait(10)
    settings.MIRROR_TALLY_SECONDS = 0
    thread = stats._buffer._thread
    assert thread
    thread.join(10)
    assert not thread.is_alive()
    assert counted() == {("10", "new"): 2}
