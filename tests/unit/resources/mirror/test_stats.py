"""Tallies: gathered by the process, added up in the database."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection

from resources.mirroring.knowing import tallies
from resources.mirroring.knowing.models import Tally
from tests.resources.mirroring.rows import NOW

pytestmark = pytest.mark.django_db


def counted() -> dict[tuple[str, str], int]:
    return {(f"{row.hour:%H}", row.step): row.number for row in Tally.objects.all()}


@pytest.fixture
def gathering(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts are gathered, and written when a test says so."""
    settings.MIRROR_TALLY_SECONDS = 1
    monkeypatch.setattr(tallies, "_write_forever", lambda: None)
    tallies._buffer.forget()


def test_counts_add_up_by_hour(gathering: None) -> None:
    for at in (NOW, NOW + timedelta(minutes=20), NOW + timedelta(hours=1)):
        tallies.count("new", 2, at)
    tallies.count("known", 5, NOW)
    assert not Tally.objects.exists()
    tallies.flush()
    assert counted() == {("10", "new"): 4, ("11", "new"): 2, ("10", "known"): 5}
    tallies.count("new", 1, NOW)
    tallies.flush()
    tallies.flush()
    assert counted()["10", "new"] == 5


def test_nothing_is_counted_for_nothing(gathering: None) -> None:
    tallies.count("new", 0, NOW)
    tallies.flush()
    assert counted() == {}


def test_what_the_database_does_not_take_is_written_later(gathering: None) -> None:
    def refuse(*_: Any) -> Any:
        raise OperationalError("database is locked")

    tallies.count("new", 2, NOW)
    with connection.execute_wrapper(refuse):
        tallies.flush()
    tallies.count("new", 1, NOW)
    tallies.flush()
    assert counted() == {("10", "new"): 3}


def test_many_who_count_at_once_lose_nothing(gathering: None) -> None:
    def count() -> None:
        for _ in range(500):
            tallies.count("new", 1, NOW)

    with ThreadPoolExecutor(4) as threads:
        for _ in range(4):
            threads.submit(count)
    tallies.flush()
    assert counted() == {("10", "new"): 2000}


def test_without_a_pause_each_is_written_at_once() -> None:
    tallies.count("new", 2, NOW)
    assert counted() == {("10", "new"): 2}


@pytest.mark.django_db(transaction=True)
def test_the_process_writes_by_itself(settings: Any) -> None:
    settings.MIRROR_TALLY_SECONDS = 0.01
    written = threading.Event()
    add = tallies.add

    def noted(counts: Any) -> None:
        add(counts)
        connection.close()
        written.set()

    tallies._buffer.forget()
    original, tallies.add = tallies.add, noted
    try:
        tallies.count("new", 2, NOW)
        assert written.wait(10)
    finally:
        settings.MIRROR_TALLY_SECONDS = 0
        thread = tallies._buffer._thread
        assert thread
        thread.join(10)
        tallies.add = original
    assert not thread.is_alive()
    assert counted() == {("10", "new"): 2}
