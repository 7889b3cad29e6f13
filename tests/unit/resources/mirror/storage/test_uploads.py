"""What is held here reaches the bucket, in batches, and rows say so last."""

import time
from pathlib import Path
from typing import Any

import pytest
from django.db.models.query import QuerySet

from project.storing import storage_from
from resources.mirroring.errors import StorageError
from resources.mirroring.knowing.models import Blob, State
from resources.mirroring.storing import blobs, remote, wishes
from resources.mirroring.storing.places import Here, whereabouts
from resources.mirroring.storing.pruning import remove_bytes
from resources.mirroring.storing.uploading import Troubles, Uploader
from resources.threads import usable_connections
from retry import connections, contents, standings
from tests.flows.stack import free_port
from tests.moto_bucket import MotoBucket
from tests.resources.mirroring.conftest import NOW, Give, Keep
from tests.retry.claiming import begun, look

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
    assert isinstance(whereabouts(blob), Here)
    settings.STORAGES = works
    assert uploader.run_once(0) == 0  # it rests for a second
    now = time.monotonic() + 2
    monkeypatch.setattr(time, "monotonic", lambda: now)
    assert uploader.run_once(0) == 1


def test_what_fails_again_and_again_is_tried_less_often() -> None:
    troubles = Troubles()
    for _ in range(20):
        troubles.failed("a", 0)
    assert troubles.resting(299) == ["a"]
    assert troubles.resting(301) == []
    troubles.ended("a")
    troubles.failed("a", 0)
    assert troubles.resting(1) == []


def test_what_failed_and_was_removed_since_is_forgotten() -> None:
    troubles = Troubles()
    troubles.failed("a", 0)
    troubles.failed("b", 0)
    troubles.failed("b", 2)
    assert troubles.resting(301.5) == []
    troubles.failed("a", 302)  # for the first time again
    troubles.failed("b", 302)
    assert troubles.resting(303.5) == ["b"]


def test_who_waits_at_another_machine_is_sent_back_when_it_is_uploaded(
    bucket: MotoBucket, keep: Keep, uploader: Uploader
) -> None:
    first, wanted = keep(b"first"), keep(b"wanted", stored_at=NOW)
    work = wishes.upload_work(wanted.digest, "here")
    token = begun(work).token
    for _ in range(2):  # once more is the same
        wishes.publish(work.task, work.key, token, work.arguments, wishes.LANE)
    assert uploader.run_once(0) == 2
    found = look(work)
    assert isinstance(found, standings.Done)
    assert found.outcome == "stored"
    told = connections.run(contents.read(wishes.content_key(wanted.digest)))
    assert told is not None
    assert told.body.decode() == wanted.digest
    assert wishes.taken("here", 9, 0) == []
    assert first.name in bucket.names()


def test_a_wish_wakes_the_uploader_and_fails_with_the_upload(
    bucket: MotoBucket, keep: Keep, uploader: Uploader, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise StorageError("away")

    monkeypatch.setattr(remote, "upload", fail)
    work = wishes.upload_work(keep(BODY).digest, "here")
    wishes.publish(work.task, work.key, begun(work).token, work.arguments, wishes.LANE)
    uploader.run_once(5)
    found = look(work)
    assert isinstance(found, standings.Failed)
    assert found.status == 503


def test_bytes_that_are_gone_before_they_were_uploaded_are_fetched_again(
    bucket: MotoBucket, keep: Keep, give: Give, uploader: Uploader
) -> None:
    row = give(keep(BODY))
    blobs.path_of(row.blob_digest).unlink()
    assert uploader.run_once(0) == 0
    row.refresh_from_db()
    assert row.state == State.WANTED
    assert not Blob.objects.exists()


def test_what_another_uploader_had_in_the_storage_before_it_was_swept_is_not_lost(
    bucket: MotoBucket, keep: Keep, give: Give, uploader: Uploader, monkeypatch: pytest.MonkeyPatch
) -> None:
    row, upload = give(keep(BODY)), remote.upload

    def comes_too_late(path: Path, name: str, media_type: str) -> None:
        upload(path, name, media_type)
        with usable_connections():
            Blob.objects.update(uploaded_at=NOW)
        path.unlink()
        upload(path, name, media_type)

    monkeypatch.setattr(remote, "upload", comes_too_late)
    uploader.run_once(0)
    row.refresh_from_db()
    assert row.state == State.STORED
    assert Blob.objects.get().uploaded_at == NOW


def test_what_is_taken_down_while_it_is_uploaded_is_removed_there(
    bucket: MotoBucket, keep: Keep, uploader: Uploader, monkeypatch: pytest.MonkeyPatch
) -> None:
    blob, upload = keep(BODY), remote.upload

    def taken_down_meanwhile(path: Path, name: str, media_type: str) -> None:
        upload(path, name, media_type)
        with usable_connections():
            Blob.objects.update(taken_down_at=NOW)

    monkeypatch.setattr(remote, "upload", taken_down_meanwhile)
    uploader.run_once(0)
    assert bucket.names() == set()
    blob.refresh_from_db()
    assert blob.uploaded_at is None


def test_a_blob_that_came_again_while_it_was_pruned_is_uploaded_again(
    bucket: MotoBucket, keep: Keep, uploader: Uploader
) -> None:
    blob = keep(BODY)
    uploader.run_once(0)
    began = time.time()
    blobs.keep(BODY, blob.digest)
    remove_bytes(blob, began)
    assert uploader.run_once(0) == 1
    assert bucket.names() == {blob.name}
