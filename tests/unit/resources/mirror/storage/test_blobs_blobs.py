"""Bytes are stored once, whole, and are removed only if no process has stored them again."""

import errno
import os
import time
from hashlib import sha256
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest

from resources.mirror.errors import StorageError
from resources.mirror.models import Blob
from resources.mirror.storage import blobs

BODY = b"some bytes"
DIGEST = sha256(BODY).hexdigest()


@pytest.fixture
def spooled(tmp_path: Path) -> Path:
    file = tmp_path / "fetch-1"
    file.write_bytes(BODY)
    return file


def read(blob: Blob) -> bytes:
    with blobs.open_blob(blob) as file:
        return file.read()


def test_bytes_are_kept_under_their_digest() -> None:
    name = blobs.keep_blob(BODY, DIGEST)
    assert name == f"mirror/{DIGEST[:2]}/{DIGEST[2:4]}/{DIGEST}"
    assert read(Blob(digest=DIGEST, name=name)) == BODY


def test_a_file_is_kept_and_stays_its_owners(spooled: Path) -> None:
    blobs.keep_blob(spooled, DIGEST)
    spooled.unlink()
    assert blobs.local_path(DIGEST).read_bytes() == BODY


def test_a_file_of_another_file_system_is_copied(spooled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EXDEV, "another file system")

    monkeypatch.setattr(os, "link", refuse)
    blobs.keep_blob(spooled, DIGEST)
    assert blobs.local_path(DIGEST).read_bytes() == BODY
    assert [path.name for path in blobs.local_path(DIGEST).parent.iterdir()] == [DIGEST]


def test_what_is_there_is_not_written_again(spooled: Path) -> None:
    blobs.keep_blob(BODY, DIGEST)
    first = blobs.local_path(DIGEST).stat().st_ino
    spooled.unlink()
    blobs.keep_blob(spooled, DIGEST)  # another errand of the same body has taken it
    assert blobs.local_path(DIGEST).stat().st_ino == first


def test_what_another_process_has_placed_is_on_the_disk_before_a_row_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    blobs.keep_blob(BODY, DIGEST)
    synced = list[Path]()
    monkeypatch.setattr(blobs, "_sync_to_disk", synced.append)
    blobs.keep_blob(BODY, DIGEST)
    assert blobs.local_path(DIGEST).parent in synced


def test_many_keep_the_same_at_once(spooled: Path) -> None:
    start, errors = Barrier(8), list[Exception]()

    def keep() -> None:
        start.wait()
        try:
            blobs.keep_blob(spooled, DIGEST)
        except Exception as error:  # noqa: BLE001  told by the test's thread
            errors.append(error)

    threads = [Thread(target=keep) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert blobs.local_path(DIGEST).read_bytes() == BODY


def test_a_full_disk_is_an_error_of_the_storage_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    blobs.local_path(DIGEST).parent.mkdir(parents=True)
    with pytest.raises(StorageError, match="No space left"):
        blobs.keep_blob(BODY, DIGEST)
    assert list(blobs.local_path(DIGEST).parent.iterdir()) == []


def test_removed_bytes_are_gone() -> None:
    blob = Blob(digest=DIGEST, name=blobs.keep_blob(BODY, DIGEST))
    blobs.remove_blob(blob)
    with pytest.raises(FileNotFoundError):
        blobs.open_blob(blob)
    blobs.remove_blob(blob)  # once more does no harm


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
            patched.setattr(Path, "stat", killed)
            with pytest.raises(RuntimeError):
                blobs.remove_local_blob(DIGEST, kept_before=began)
        unlink(path)

    def killed(*_: object, **__: object) -> None:
        raise RuntimeError("killed")

    monkeypatch.setattr(Path, "unlink", the_other_then_unlinked)
    blobs.remove_local_blob(DIGEST, kept_before=began)
    monkeypatch.undo()
    assert [entry.read_bytes() for entry in blobs.local_path(DIGEST).parent.iterdir()] == [BODY]


def test_with_a_bucket_bytes_are_held_on_this_machine_first(settings: Any, tmp_path: Path) -> None:
    settings.STORAGES = {**settings.STORAGES, "default": {"BACKEND": "django.core.files.storage.InMemoryStorage"}}
    settings.MIRROR_HELD_DIRECTORY = tmp_path / "held"
    name = blobs.keep_blob(BODY, DIGEST)
    assert (tmp_path / "held" / DIGEST[:2] / DIGEST[2:4] / DIGEST).read_bytes() == BODY
    assert read(Blob(digest=DIGEST, name=name)) == BODY
    blobs.remove_blob(Blob(digest=DIGEST, name=name))
    with pytest.raises(FileNotFoundError):
        blobs.open_blob(Blob(digest=DIGEST, name=name))
