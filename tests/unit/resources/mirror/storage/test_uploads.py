"""Bytes reach the bucket in batches, rows say so last, and each place of bytes leads to the client."""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
import requests
from django.core.files.storage import default_storage
from django.db import OperationalError, connections
from django.db.models.query import QuerySet

from project.environment import storage_from
from resources import folders, locks
from resources.database import usable_connections
from resources.mirror import delivery as mirror_delivery
from resources.mirror.errors import StorageError
from resources.mirror.models import Blob, UrlState
from resources.mirror.storage import blobs, held_files, sweeper
from resources.mirror.storage import uploads as storage_uploads
from resources.mirror.storage.retention import remove_pruned_bytes
from resources.mirror.storage.takedown import take_down_blob
from resources.mirror.storage.uploads import Uploader
from retry import claim_state, contents, stores
from retry.errors import StoreUnavailable
from tests.support.claim_calls import begun, failure, look
from tests.support.moto_bucket import MotoBucket
from tests.support.stack import eventually, free_port

from ..conftest import NOW, Give, Keep, raising

BODY = b"some bytes"

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_batch_is_uploaded_and_confirmed_in_one_statement(
    bucket: MotoBucket, keep: Keep, uploader: Uploader, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = [keep(bytes([number])) for number in range(20)]
    confirmed, update = [], QuerySet.update

    def counted(rows: "QuerySet[Blob]", **fields: Any) -> int:
        assert bucket.names() == {blob.name for blob in kept}  # bytes first
        confirmed.append(fields)
        return update(rows, **fields)

    monkeypatch.setattr(QuerySet, "update", counted)
    assert uploader.run_once(0) == 20
    assert [list(fields) for fields in confirmed] == [["uploaded_at"]]
    assert not Blob.objects.filter(uploaded_at=None).exists()
    assert bucket.body(kept[7].name) == bytes([7])
    assert bucket.type_of(kept[7].name) == "image/png"
    assert uploader.run_once(0) == 0


def test_a_bucket_that_is_away_is_tried_again_and_bytes_are_served_from_here(
    bucket: MotoBucket, keep: Keep, uploader: Uploader, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    blob, works = keep(BODY), settings.STORAGES
    nowhere = bucket.storage_url.replace(bucket.host, f"127.0.0.1:{free_port()}")
    settings.STORAGES = {**works, "default": storage_from(nowhere)}
    assert uploader.run_once(0) == 0
    assert isinstance(storage_uploads.locate_blob(blob), storage_uploads.OnThisMachine)
    settings.STORAGES = works
    assert uploader.run_once(0) == 0  # it rests for a second
    now = time.monotonic() + 2
    monkeypatch.setattr(time, "monotonic", lambda: now)
    assert uploader.run_once(0) == 1


def test_what_fails_again_and_again_is_tried_less_often() -> None:
    troubles = storage_uploads.UploadFailures()
    for _ in range(20):
        troubles.failed("a", 0)
    assert troubles.resting(299) == ["a"]
    assert troubles.resting(301) == []
    assert troubles.resting(601) == []  # forgotten: it was due long ago
    troubles.failed("a", 602)  # for the first time again
    assert troubles.resting(603.5) == []
    troubles.failed("a", 604)
    troubles.ended("a")
    troubles.failed("a", 605)
    assert troubles.resting(606) == []


def test_who_waits_elsewhere_goes_back_once_it_is_uploaded(bucket: MotoBucket, keep: Keep, uploader: Uploader) -> None:
    first, wanted = keep(b"first"), keep(b"wanted", stored_at=NOW)
    work = storage_uploads.upload_work(wanted.digest, "here")
    token = begun(work).token
    for _ in range(2):  # once more is the same
        storage_uploads.publish_upload(work.task, work.key, token, work.arguments, storage_uploads.UPLOAD_LANE)
    assert uploader.run_once(0) == 2
    found = look(work)
    assert isinstance(found, claim_state.WorkDone)
    assert found.outcome == "stored"
    told = stores.run_steps(contents.read_content(storage_uploads.upload_content_key(wanted.digest)))
    assert told is not None
    assert told.body.decode() == wanted.digest
    assert storage_uploads.take_upload_requests("here", 9, 0) == []
    assert first.name in bucket.names()


def test_a_request_wakes_the_uploader_and_fails_with_the_upload(
    bucket: MotoBucket, keep: Keep, uploader: Uploader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blobs, "upload_object", raising(StorageError("away")))
    work = storage_uploads.upload_work(keep(BODY).digest, "here")
    storage_uploads.publish_upload(work.task, work.key, begun(work).token, work.arguments, storage_uploads.UPLOAD_LANE)
    locks.hold_machine_name("here", "its id")
    assert held_files.find_holder("here").pause_seconds is None
    uploader.run_once(5)
    assert failure(work).status == 503
    assert held_files.find_holder("here").pause_seconds == 10


def test_a_bucket_that_is_silent_is_told_to_other_machines_before_it_has_failed(
    bucket: MotoBucket, keep: Keep, uploader: Uploader, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = Event()

    def run_once() -> None:
        uploader.run_once(0)
        connections.close_all()  # those of this thread

    locks.hold_machine_name("here", "its id")
    keep(BODY)
    monkeypatch.setattr(storage_uploads, "SILENT_SECONDS", 0.1)
    monkeypatch.setattr(held_files, "UPLOAD_PAUSE_SECONDS", 1)
    monkeypatch.setattr(blobs, "upload_object", lambda *_: silent.wait(PATIENCE_SECONDS))
    uploading = Thread(target=run_once)
    uploading.start()
    eventually(lambda: held_files.find_holder("here").pause_seconds == 10, PATIENCE_SECONDS, "others are told")
    held_files.note_uploads("here", works=True)  # as if the note had lapsed
    eventually(lambda: held_files.find_holder("here").pause_seconds == 10, PATIENCE_SECONDS, "others are told again")
    silent.set()
    uploading.join()
    assert held_files.find_holder("here").pause_seconds is None


def test_lost_bytes_are_fetched_again(bucket: MotoBucket, keep: Keep, give: Give, uploader: Uploader) -> None:
    locks.hold_machine_name("here", "its id")
    row = give(keep(BODY))
    blobs.local_path(row.blob_digest).unlink()
    assert uploader.run_once(0) == 0
    row.refresh_from_db()
    assert row.state == UrlState.WANTED
    assert not Blob.objects.exists()
    assert held_files.find_holder("here").pause_seconds is None  # the bucket refused nothing


def test_what_is_uploaded_while_state_is_away_is_not_uploaded_again(
    bucket: MotoBucket, keep: Keep, uploader: Uploader, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(BODY)
    monkeypatch.setattr(held_files, "note_uploads", raising(StoreUnavailable("away")))
    assert [uploader.run_once(0), uploader.run_once(0)] == [1, 0]


def test_what_came_again_while_it_was_pruned_is_uploaded(bucket: MotoBucket, keep: Keep, uploader: Uploader) -> None:
    blob = keep(BODY)
    uploader.run_once(0)
    began = time.time()
    blobs.keep_blob(BODY, blob.digest)
    remove_pruned_bytes(blob, began)
    assert uploader.run_once(0) == 1
    assert bucket.names() == {blob.name}


PATIENCE_SECONDS = 20.0

Tend = Callable[..., storage_uploads.StorageUpkeep]


class Uploads:
    """In the uploader's place: fails by turns, then has nothing to do."""

    at_end: Exception | None = None

    def __init__(self, *errors: Exception) -> None:
        self._errors = deque(errors)
        self.failed, self.went_on, self.closed = Event(), Event(), Event()

    def run_once(self, wait_seconds: float) -> int:
        if self._errors:
            self.failed.set()
            raise self._errors.popleft()
        self.went_on.set()
        if self.closed.wait(PATIENCE_SECONDS if self.at_end else wait_seconds) and self.at_end:
            raise self.at_end
        return 0

    def close(self) -> None:
        self.closed.set()


@pytest.fixture
def tend(monkeypatch: pytest.MonkeyPatch) -> Iterator[Tend]:
    """Starts one with these uploads, which ends with the test."""
    started: list[storage_uploads.StorageUpkeep] = []

    def tending_by(uploads: Uploads | None = None, *, pause_seconds: float = 0.01) -> storage_uploads.StorageUpkeep:
        monkeypatch.setattr(storage_uploads, "UPKEEP_PAUSE_SECONDS", pause_seconds)
        monkeypatch.setattr(storage_uploads, "Uploader", lambda: uploads)
        tender = storage_uploads.StorageUpkeep()
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
def test_it_goes_on_after_a_failure(tend: Tend, caplog: pytest.LogCaptureFixture, error: Exception, level: int) -> None:
    uploads = Uploads(error, error)
    tender = tend(uploads)

    assert uploads.went_on.wait(PATIENCE_SECONDS)
    assert tender.is_alive()
    assert [record.levelno for record in caplog.records] == [level, level]


@pytest.mark.usefixtures("bucket_of_any_kind")
def test_what_fails_in_a_turn_keeps_no_upload_from_being_done(tend: Tend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_uploads, "_sweep_held_blobs", raising(StorageError("the folder cannot be read")))
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
    uploads = Uploads()
    uploads.at_end = RuntimeError("cannot schedule new futures after shutdown")
    tender = tend(uploads)
    assert uploads.went_on.wait(PATIENCE_SECONDS)

    tender.end()
    assert not tender.is_alive()
    assert caplog.records == []


def test_where_files_are_the_storage_it_uploads_nothing_but_sweeps_what_fetches_left(
    tend: Tend, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.FETCH_SPOOL_DIRECTORY = str(tmp_path)
    swept, sweep = Event(), storage_uploads._sweep_spool

    def told() -> None:
        sweep()
        swept.set()

    monkeypatch.setattr(storage_uploads, "_sweep_spool", told)
    uploads = Uploads()
    with folders.hold_folder(tmp_path) as held:
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
    turn = storage_uploads.PeriodicAction(60, lambda: taken.append(clock[0]), due=clock[0])
    for now in (100.0, 100.0, 159.9, 160.0, 200.0, 900.0, 959.9):
        clock[0] = now
        turn.take()
    assert taken == [100.0, 160.0, 900.0]


def test_bytes_are_here_then_here_and_there_then_there(bucket: MotoBucket, keep: Keep, uploader: Uploader) -> None:
    blob = keep(BODY)
    uploader.run_once(0)
    blob.refresh_from_db()
    assert isinstance(storage_uploads.locate_blob(blob), storage_uploads.OnThisMachine)
    assert blob.uploaded_at is not None
    sweeper.sweep_held_blobs(blob.uploaded_at + timedelta(hours=2))
    assert storage_uploads.locate_blob(blob) == storage_uploads.InStorage(blob.name)
    with blobs.open_blob(blob) as file:
        assert file.read() == BODY
    link = blobs.bucket_link(blob.name, "text/plain", 'attachment; filename="a"')
    assert link is not None
    answer = requests.get(link, headers={"Range": "bytes=2-4"}, timeout=5)
    assert (answer.status_code, answer.content) == (206, BODY[2:5])
    assert answer.headers["Content-Type"] == "text/plain"
    assert answer.headers["Content-Disposition"] == 'attachment; filename="a"'
    assert b"".join(blobs.stream_object(blob.name, 2, 5)) == BODY[2:5]
    take_down_blob(blob.digest)
    assert bucket.names() == set()


@pytest.mark.usefixtures("bucket_of_any_kind")
def test_bytes_are_left_to_their_holder_which_may_have_lost_them(keep: Keep, uploader: Uploader, settings: Any) -> None:
    blob, held = keep(BODY), settings.MIRROR_HELD_DIRECTORY
    settings.MACHINE, settings.MIRROR_HELD_DIRECTORY = "there", held / "of another"
    assert uploader.run_once(0) == 0
    assert storage_uploads.locate_blob(blob) == storage_uploads.OnOtherMachine("here")
    settings.MACHINE, settings.MIRROR_HELD_DIRECTORY = "here", held
    blobs.remove_local_blob(blob.digest)
    assert storage_uploads.locate_blob(blob) == storage_uploads.MissingBytes()


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"uploaded_at": NOW}, id="another uploader had it there before it was swept here"),
        pytest.param({"taken_down_at": NOW}, id="it was taken down"),
    ],
)
def test_what_changes_while_it_is_uploaded_is_as_the_other_process_says(
    bucket: MotoBucket, keep: Keep, give: Give, uploader: Uploader, monkeypatch: pytest.MonkeyPatch, *, other: Any
) -> None:
    row, upload, stays = give(keep(BODY)), blobs.upload_object, "uploaded_at" in other

    def changed(path: Path, name: str, media_type: str) -> None:
        upload(path, name, media_type)
        with usable_connections():
            Blob.objects.update(**other)
        if stays:  # and once more, after the sweep
            path.unlink()
            upload(path, name, media_type)

    monkeypatch.setattr(blobs, "upload_object", changed)
    uploader.run_once(0)
    row.refresh_from_db()
    assert row.state == UrlState.STORED
    blob = Blob.objects.get()
    assert (bucket.names(), blob.uploaded_at) == (({blob.name}, NOW) if stays else (set(), None))


def test_objects_without_a_row_are_removed_and_rows_without_an_object_are_fetched_again(
    bucket: MotoBucket, keep: Keep, give: Give, uploader: Uploader
) -> None:
    orphan, lost = keep(b"orphan"), keep(b"lost")
    row = give(lost)
    uploader.run_once(0)
    Blob.objects.filter(digest=orphan.digest).delete()
    default_storage.delete(lost.name)
    blobs.local_path(lost.digest).unlink()
    later = datetime.now(UTC) + timedelta(hours=2)
    for digest in (orphan.digest, lost.digest):
        sweeper.sweep_shelf(digest[:2], later)
    assert bucket.names() == set()
    row.refresh_from_db()
    assert row.state == UrlState.WANTED


@pytest.mark.parametrize("delivery", ["proxy", "redirect"])
@pytest.mark.usefixtures("bucket")
def test_main_hands_objects_over(keep: Keep, uploader: Uploader, settings: Any, client: Any, delivery: str) -> None:
    settings.MIRROR_DELIVERY = delivery
    blob = keep(BODY)
    uploader.run_once(0)
    blobs.remove_local_blob(blob.digest)
    response = client.get(f"/resources/{blob.digest}", headers={"X-Front": "asked"})
    if delivery == "redirect":
        assert (response.status_code, response["Cache-Control"]) == (302, "no-store")
        assert requests.get(response["Location"], timeout=5).content == BODY
    else:
        assert response["X-Accel-Redirect"] == f"/delivered/bucket/{blob.digest}"
        assert requests.get(response[mirror_delivery.LINK_FIELD], timeout=5).content == BODY
