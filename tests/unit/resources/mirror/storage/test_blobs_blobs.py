"""Bytes are kept once, whole, and go only when nobody has kept them again."""

import errno
import os
import time
from hashlib import sha256
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest

from resources.mirroring.errors import StorageError
from resources.mirroring.knowing.models import Blob
from resources.mirroring.storing import blobs

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
    name = blobs.keep(BODY, DIGEST)
    assert name == f"mirror/{DIGEST[:2]}/{DIGEST[2:4]}/{DIGEST}"
    assert read(Blob(digest=DIGEST, name=name)) == BODY


def test_a_file_is_kept_and_stays_its_owners(spooled: Path) -> None:
    blobs.keep(spooled, DIGEST)
    spooled.unlink()
    assert blobs.path_of(DIGEST).read_bytes() == BODY


def test_a_file_of_another_file_system_is_copied(spooled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EXDEV, "another file system")

    monkeypatch.setattr(os, "link", refuse)
    blobs.keep(spooled, DIGEST)
    assert blobs.path_of(DIGEST).read_bytes() == BODY
    assert [path.name for path in blobs.path_of(DIGEST).parent.iterdir()] == [DIGEST]


def test_what_is_there_is_not_written_again(spooled: Path) -> None:
    blobs.keep(BODY, DIGEST)
    first = blobs.path_of(DIGEST).stat().st_ino
    spooled.unlink()
    blobs.keep(spooled, DIGEST)  # another errand of the same body has taken it
    assert blobs.path_of(DIGEST).stat().st_ino == first


def test_what_another_process_has_placed_is_on_the_disk_before_a_row_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    blobs.keep(BODY, DIGEST)
    synced = list[Path]()
    monkeypatch.setattr(blobs, "_sync", synced.append)
    blobs.keep(BODY, DIGEST)
    assert blobs.path_of(DIGEST).parent in synced


def test_many_keep_the_same_at_once(spooled: Path) -> None:
    start, errors = Barrier(8), list[Exception]()

    def keep() -> None:
        start.wait()
        try:
            blobs.keep(spooled, DIGEST)
        except Exception as error:  # noqa: BLE001  told by the test's thread
            errors.append(error)

    threads = [Thread(target=keep) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert blobs.path_of(DIGEST).read_bytes() == BODY


def test_a_full_disk_is_an_error_of_the_storage_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    blobs.path_of(DIGEST).parent.mkdir(parents=True)
    with pytest.raises(StorageError, match="No space left"):
        blobs.keep(BODY, DIGEST)
    assert list(blobs.path_of(DIGEST).parent.iterdir()) == []


def test_removed_bytes_are_gone() -> None:
    blob = Blob(digest=DIGEST, name=blobs.keep(BODY, DIGEST))
    blobs.remove(blob)
    with pytest.raises(FileNotFoundError):
        blobs.open_blob(blob)
    blobs.remove(blob)  # once more does no harm


@pytest.mark.parametrize("again", ["the same file", "a new file"])
def test_what_was_kept_again_is_not_removed(spooled: Path, again: str) -> None:
    if again == "the same file":
        blobs.keep(BODY, DIGEST)
    began = time.time()
    blobs.keep(spooled, DIGEST)
    assert not blobs.remove_here(DIGEST, kept_before=began)
    assert blobs.path_of(DIGEST).read_bytes() == BODY
    assert blobs.remove_here(DIGEST)


def test_two_who_remove_at_once_take_nothing_of_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes are kept again, and the second puts them aside, while the first is about to remove the old ones."""
    blobs.keep(BODY, DIGEST)
    began, unlink = time.time(), Path.unlink

    def the_other_then_unlinked(path: Path) -> None:
        blobs.keep(BODY, DIGEST)
        with monkeypatch.context() as patched:
            patched.setattr(Path, "stat", killed)
            with pytest.raises(RuntimeError):
                blobs.remove_here(DIGEST, kept_before=began)
        unlink(path)

    def killed(*_: object, **__: object) -> None:
        raise RuntimeError("killed")

    monkeypatch.setattr(Path, "unlink", the_other_then_unlinked)
    blobs.remove_here(DIGEST, kept_before=began)
    monkeypatch.undo()
    assert [entry.read_bytes() for entry in blobs.path_of(DIGEST).parent.iterdir()] == [BODY]


def test_with_a_bucket_bytes_are_held_on_this_machine_first(settings: Any, tmp_path: Path) -> None:
    settings.STORAGES = {**settings.STORAGES, "default": {"BACKEND": "django.core.files.storage.InMemoryStorage"}}
    settings.MIRROR_HELD_DIRECTORY = tmp_path / "held"
    name = blobs.keep(BODY, DIGEST)
    assert (tmp_path / "held" / DIGEST[:2] / DIGEST[2:4] / DIGEST).read_bytes() == BODY
    assert read(Blob(digest=DIGEST, name=name)) == BODY
    blobs.remove(Blob(digest=DIGEST, name=name))
    with pytest.raises(FileNotFoundError):
        blobs.open_blob(Blob(digest=DIGEST, name=name))
