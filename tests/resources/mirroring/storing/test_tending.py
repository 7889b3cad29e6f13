"""The thread that uploads and sweeps beside a fetcher goes on whatever fails, and ends when it is asked to."""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from django.db import OperationalError

from resources import folders
from resources.mirroring.errors import StorageError
from resources.mirroring.storing import tending
from resources.mirroring.storing.tending import Tender, Turn
from retry.errors import StoreUnavailable

PATIENCE_SECONDS = 20.0

pytestmark = pytest.mark.django_db(transaction=True)

Tend = Callable[..., Tender]


class Uploads:
    """In the uploader's place: fails by turns, then has nothing to do."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = deque(errors)
        self.failed, self.went_on, self.closed = Event(), Event(), Event()

    def run_once(self, wait_seconds: float) -> int:
        if self._errors:
            self.failed.set()
            raise self._errors.popleft()
        self.went_on.set()
        self.closed.wait(wait_seconds)
        return 0

    def close(self) -> None:
        self.closed.set()


@pytest.fixture
def tend(monkeypatch: pytest.MonkeyPatch) -> Iterator[Tend]:
    """Starts one with these uploads, which ends with the test."""
    started: list[Tender] = []

    def tending_by(uploads: Uploads | None = None, *, pause_seconds: float = 0.01) -> Tender:
        monkeypatch.setattr(tending, "PAUSE_SECONDS", pause_seconds)
        monkeypatch.setattr(tending, "Uploader", lambda: uploads)
        tender = Tender()
        started.append(tender)
        tender.start()
        return tender

    yield tending_by
    for tender in started:
        tender.end()


@pytest.mark.parametrize(
    ("error", "level"),
    [
        (StoreUnavailable("state is away"), logging.WARNING),
        (StorageError("the bucket is away"), logging.WARNING),
        (OperationalError("the database is away"), logging.WARNING),
        (ZeroDivisionError("a mistake"), logging.ERROR),
    ],
)
@pytest.mark.usefixtures("bucket_of_any_kind")
def test_it_goes_on_after_whatever_failed(
    tend: Tend, caplog: pytest.LogCaptureFixture, error: Exception, level: int
) -> None:
    uploads = Uploads(error, error)
    tender = tend(uploads)

    assert uploads.went_on.wait(PATIENCE_SECONDS)
    assert tender.is_alive()
    assert [record.levelno for record in caplog.records] == [level, level]


@pytest.mark.usefixtures("bucket_of_any_kind")
def test_what_fails_in_a_turn_keeps_no_upload_from_being_done(tend: Tend, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise StorageError("the folder cannot be read")

    monkeypatch.setattr(tending, "_sweep_held", broken)
    uploads = Uploads()
    tend(uploads)
    assert uploads.went_on.wait(PATIENCE_SECONDS)


@pytest.mark.usefixtures("bucket_of_any_kind")
def test_it_ends_at_once_while_it_rests_after_a_failure(tend: Tend) -> None:
    uploads = Uploads(StoreUnavailable("away"))
    tender = tend(uploads, pause_seconds=3600)
    assert uploads.failed.wait(PATIENCE_SECONDS)

    tender.end()
    assert not tender.is_alive()
    assert uploads.closed.is_set()


@pytest.mark.usefixtures("bucket_of_any_kind")
def test_what_fails_because_it_was_ended_is_no_mistake(tend: Tend, caplog: pytest.LogCaptureFixture) -> None:
    class Closed(Uploads):
        def run_once(self, wait_seconds: float) -> int:
            self.went_on.set()
            self.closed.wait(PATIENCE_SECONDS)
            raise RuntimeError("cannot schedule new futures after shutdown")

    uploads = Closed()
    tender = tend(uploads)
    assert uploads.went_on.wait(PATIENCE_SECONDS)

    tender.end()
    assert not tender.is_alive()
    assert caplog.records == []


def test_where_files_are_the_storage_it_uploads_nothing_but_sweeps_what_fetches_left(
    tend: Tend, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.FETCH_SPOOL_DIRECTORY = str(tmp_path)
    swept, sweep = Event(), tending._sweep_spool

    def told() -> None:
        sweep()
        swept.set()

    monkeypatch.setattr(tending, "_sweep_spool", told)
    uploads = Uploads()
    with folders.held(tmp_path) as held:
        left = tmp_path / "held-by-nobody"
        left.mkdir()
        (left / "fetch-one").touch()
        tend(uploads, pause_seconds=3600)
        assert swept.wait(PATIENCE_SECONDS)
        assert list(tmp_path.iterdir()) == [held]
    assert not uploads.went_on.is_set()


def test_a_turn_is_taken_at_once_and_then_as_often_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[float] = []
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    turn = Turn(60, lambda: taken.append(clock[0]), due=clock[0])
    for now in (100.0, 100.0, 159.9, 160.0, 200.0, 900.0, 959.9):
        clock[0] = now
        turn.take()
    assert taken == [100.0, 160.0, 900.0]


def test_a_turn_that_fails_has_been_taken() -> None:
    attempts: list[None] = []

    def fail() -> None:
        attempts.append(None)
        raise StorageError("away")

    turn = Turn(3600, fail)
    with pytest.raises(StorageError):
        turn.take()
    turn.take()
    assert len(attempts) == 1
