"""Bytes are stored once and whole; nginx has links only to files that main would serve so."""

import errno
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from django.core.files.storage import default_storage
from django.db import OperationalError
from django.db.models import QuerySet
from django.test import Client

from resources.mirror.errors import StorageError
from resources.mirror.models import Blob
from resources.mirror.public_files import DIRECT_ENDINGS, delivery_headers
from resources.mirror.storage import blobs, sweeper, takedown
from resources.tokens import auth
from resources.tokens.models import ApiToken

from ..conftest import LONG_AGO, NOW, Keep, raising

BODY = b"some bytes"
DIGEST = sha256(BODY).hexdigest()


@pytest.fixture
def spooled(tmp_path: Path) -> Path:
    file = tmp_path / "fetch-1"
    file.write_bytes(BODY)
    return file


def test_bytes_are_kept_under_their_digest_until_they_are_removed() -> None:
    name = blobs.keep_blob(BODY, DIGEST)
    assert name == f"mirror/{DIGEST[:2]}/{DIGEST[2:4]}/{DIGEST}"
    blob = Blob(digest=DIGEST, name=name)
    with blobs.open_blob(blob) as file:
        assert file.read() == BODY
    for _ in range(2):  # once more does no harm
        blobs.remove_blob(blob)
        with pytest.raises(FileNotFoundError):
            blobs.open_blob(blob)


def test_a_file_of_another_file_system_is_copied(spooled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", raising(OSError(errno.EXDEV, "another file system")))
    blobs.keep_blob(spooled, DIGEST)
    assert blobs.local_path(DIGEST).read_bytes() == BODY
    assert [path.name for path in blobs.local_path(DIGEST).parent.iterdir()] == [DIGEST]


def test_a_file_stays_its_owners_and_what_is_there_is_not_written_again(spooled: Path) -> None:
    blobs.keep_blob(spooled, DIGEST)
    first = blobs.local_path(DIGEST).stat().st_ino
    spooled.unlink()
    blobs.keep_blob(spooled, DIGEST)  # another errand of the same body has taken it
    assert blobs.local_path(DIGEST).stat().st_ino == first
    assert blobs.local_path(DIGEST).read_bytes() == BODY


def test_what_another_process_has_placed_is_on_the_disk_before_a_row_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    blobs.keep_blob(BODY, DIGEST)
    synced = list[Path]()
    monkeypatch.setattr(blobs, "sync_to_disk", synced.append)
    blobs.keep_blob(BODY, DIGEST)
    assert blobs.local_path(DIGEST).parent in synced


def test_many_keep_the_same_at_once(spooled: Path) -> None:
    start = Barrier(8)

    def keep(_: int) -> None:
        start.wait()
        blobs.keep_blob(spooled, DIGEST)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(keep, range(8)))  # raises the error of one of them
    assert blobs.local_path(DIGEST).read_bytes() == BODY


def test_a_full_disk_is_an_error_of_the_storage_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", raising(OSError(errno.ENOSPC, "No space left on device")))
    blobs.local_path(DIGEST).parent.mkdir(parents=True)
    with pytest.raises(StorageError, match="No space left"):
        blobs.keep_blob(BODY, DIGEST)
    assert list(blobs.local_path(DIGEST).parent.iterdir()) == []


@pytest.mark.parametrize("again", ["the same file", "a new file"])
def test_what_was_kept_again_is_not_removed(spooled: Path, again: str) -> None:
    if again == "the same file":
        blobs.keep_blob(BODY, DIGEST)
    began = time.time()
    blobs.keep_blob(spooled, DIGEST)
    assert not blobs.remove_local_blob(DIGEST, kept_before=began)
    assert blobs.local_path(DIGEST).read_bytes() == BODY
    assert blobs.remove_local_blob(DIGEST)


def test_two_who_remove_at_once_take_nothing_of_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes are kept again, and the second puts them aside, while the first is about to remove the old ones."""
    blobs.keep_blob(BODY, DIGEST)
    began, unlink = time.time(), Path.unlink

    def the_other_then_unlinked(path: Path) -> None:
        blobs.keep_blob(BODY, DIGEST)
        with monkeypatch.context() as patched:
            patched.setattr(Path, "stat", raising(RuntimeError("killed")))
            with pytest.raises(RuntimeError):
                blobs.remove_local_blob(DIGEST, kept_before=began)
        unlink(path)

    monkeypatch.setattr(Path, "unlink", the_other_then_unlinked)
    blobs.remove_local_blob(DIGEST, kept_before=began)
    monkeypatch.undo()
    assert [entry.read_bytes() for entry in blobs.local_path(DIGEST).parent.iterdir()] == [BODY]


pytestmark = pytest.mark.django_db


def offer(blob: Blob) -> None:
    blobs.offer_link(blob, blobs.local_path(blob.digest))


def linked() -> list[str]:
    """The names of all links."""
    return sorted(path.name for path in Path(default_storage.path("served")).rglob("*") if path.is_file())


@pytest.fixture
def blob(keep: Keep) -> Blob:
    return keep(media_type="image/jpeg")


@pytest.fixture
def link(blob: Blob) -> Path:
    offer(blob)
    return Path(default_storage.path(f"served/{blob.digest[:2]}/{blob.digest}.jpeg"))


def meanwhile(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object]) -> None:
    """It happens after a link was made, and before the row is read once more."""
    exists = QuerySet.exists

    def read(rows: QuerySet[Any]) -> bool:
        monkeypatch.setattr(QuerySet, "exists", exists)
        happens()
        return exists(rows)

    monkeypatch.setattr(QuerySet, "exists", read)


def test_a_link_is_the_file_itself_by_an_ending_for_its_type(blob: Blob, link: Path) -> None:
    assert link.samefile(blobs.local_path(blob.digest))
    offer(blob)  # once more does no harm
    assert linked() == [link.name]


def test_each_ending_stands_for_one_type_and_names_its_downloads() -> None:
    assert len(set(DIRECT_ENDINGS.values())) == len(DIRECT_ENDINGS)
    for media_type, ending in DIRECT_ENDINGS.items():
        assert delivery_headers(media_type)["Content-Disposition"].endswith(f'.{ending}"')


@pytest.mark.parametrize("media_type", ["text/plain; charset=utf-8", "image/svg+xml", "application/x-anything"])
def test_files_of_other_types_have_none(keep: Keep, media_type: str) -> None:
    offer(keep(media_type=media_type))
    assert linked() == []


def test_nothing_in_a_bucket_has_one(bucket_of_any_kind: None, keep: Keep) -> None:
    offer(blob := keep())
    blobs.withdraw_links(blob.digest)
    assert list(blobs.list_shelf_links(blob.digest[:2])) == []


def test_where_there_can_be_no_link_all_stays_as_it_is(blob: Blob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", raising(PermissionError("a file system without links")))
    offer(blob)
    assert linked() == []


def test_who_takes_down_what_keeps_its_link_is_told_to_do_it_again(
    blob: Blob, link: Path, monkeypatch: pytest.MonkeyPatch, client: Client
) -> None:
    token = auth.issue_token(ApiToken(name="lawyer", may_take_down=True)).text
    with monkeypatch.context() as away:
        away.setattr(blobs, "withdraw_links", raising(StorageError("away")))
        away.setattr(blobs, "remove_blob", lambda _: None)
        answer = client.delete(f"/api/resources/{blob.digest}", headers={"Authorization": f"Bearer {token}"})
    assert (answer.status_code, "Send this again" in answer.json()["detail"]) == (503, True)
    blob.refresh_from_db()
    assert blob.taken_down_at is not None
    again = client.delete(f"/api/resources/{blob.digest}", headers={"Authorization": f"Bearer {token}"})
    assert (again.status_code, linked()) == (200, [])


def test_killed_once_the_row_changed_a_takedown_leaves_none(
    blob: Blob, link: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    withdraw, calls = blobs.withdraw_links, []

    def killed_at_the_second(digest: str) -> None:
        calls.append(Blob.objects.exclude(taken_down_at=None).exists())
        if len(calls) == 2:
            raise SystemExit
        withdraw(digest)

    monkeypatch.setattr(blobs, "withdraw_links", killed_at_the_second)
    with pytest.raises(SystemExit):
        takedown.take_down_blob(blob.digest)
    assert calls == [False, True]  # before and after the row changed
    assert Blob.objects.get().taken_down_at is not None
    assert linked() == []


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda row: row.update(taken_down_at=NOW), id="taken down"),
        pytest.param(lambda row: row.delete(), id="removed"),
        pytest.param(lambda row: row.update(media_type="image/gif"), id="of another type"),
    ],
)
def test_what_changes_while_it_is_linked_has_none(
    blob: Blob, monkeypatch: pytest.MonkeyPatch, change: Callable[[QuerySet[Blob]], object]
) -> None:
    def happen() -> None:
        assert linked() != []
        change(Blob.objects.filter(digest=blob.digest))

    meanwhile(monkeypatch, happen)
    offer(blob)
    assert linked() == []


def test_where_the_row_cannot_be_read_once_more_there_is_none(blob: Blob, monkeypatch: pytest.MonkeyPatch) -> None:
    meanwhile(monkeypatch, raising(OperationalError("away")))
    with pytest.raises(OperationalError):
        offer(blob)
    assert linked() == []


def test_its_link_goes_if_the_file_cannot_be_removed(blob: Blob, link: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "rename", raising(PermissionError("not now")))
    with pytest.raises(StorageError):
        blobs.remove_local_blob(blob.digest)
    assert linked() == []


FALSE: dict[str, Callable[[QuerySet[Blob], Path], object]] = {
    "taken down": lambda row, _: row.update(taken_down_at=NOW),
    "pruned": lambda row, _: row.delete(),
    "another type": lambda row, _: row.update(media_type="image/gif"),
    "a type that has none": lambda row, _: row.update(media_type="text/html"),
    "no file": lambda _, path: path.unlink(),
    "another file": lambda _, path: path.rename(path.with_name("aside")) and blobs.keep_blob(b"some bytes", path.name),
}
"""The leftovers of a killed process beside a link."""


@pytest.mark.parametrize("leave", FALSE.values(), ids=FALSE)
def test_false_links_are_swept(blob: Blob, link: Path, leave: Callable[[QuerySet[Blob], Path], object]) -> None:
    leave(Blob.objects.filter(digest=blob.digest), blobs.local_path(blob.digest))
    sweeper.sweep_shelf(blob.digest[:2], NOW)
    assert linked() == []


def test_the_sweeper_leaves_those_that_are_true_and_nothing_that_is_no_link(blob: Blob, link: Path) -> None:
    (link.parent / "x").touch()
    sweeper.sweep_shelf(blob.digest[:2], LONG_AGO)
    assert linked() == [link.name]


def test_what_cannot_be_removed_keeps_no_other_link(blob: Blob, link: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (link.parent / "a broken link").mkdir()
    Blob.objects.update(taken_down_at=NOW)
    monkeypatch.setattr(blobs, "remove_blob", raising(StorageError("it cannot be removed")))
    with pytest.raises(StorageError):
        sweeper.sweep_shelf(blob.digest[:2], NOW)
    assert linked() == []
