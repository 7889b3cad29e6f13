"""Many small files are kept at once, each as if it were kept alone."""

import errno
import os
from hashlib import sha256
from pathlib import Path

import pytest

from resources.mirror.storage import blobs, small_files

from ..conftest import raising

BODIES = {sha256(body).hexdigest(): body for body in (f"body {number}".encode() for number in range(120))}


def kept(bodies: dict[str, bytes]) -> None:
    """Checks that each is there, whole, under its name alone."""
    for digest, body in bodies.items():
        path = blobs.local_path(digest)
        assert path.read_bytes() == body
        assert [entry.name for entry in path.parent.iterdir() if entry.name.startswith(".")] == []


def test_many_are_kept_once_and_stay_when_they_come_again() -> None:
    assert small_files.keep_bodies(BODIES) == {}
    kept(BODIES)
    places = {digest: blobs.local_path(digest).stat().st_ino for digest in BODIES}
    os.utime(blobs.local_path(next(iter(BODIES))), (1, 1))
    assert small_files.keep_bodies(BODIES) == {}
    assert {digest: blobs.local_path(digest).stat().st_ino for digest in BODIES} == places
    assert min(blobs.local_path(digest).stat().st_mtime for digest in BODIES) > 1


def test_each_file_and_each_folder_with_a_new_name_is_on_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    synced, fsync = set[str](), os.fsync

    def noted(descriptor: int) -> None:
        synced.add(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    digest, body = next(iter(BODIES.items()))
    small_files.keep_bodies({digest: body})
    path = blobs.local_path(digest)
    assert {str(folder) for folder in (path.parent, path.parent.parent, path.parent.parent.parent)} <= synced
    assert any(Path(name).name.startswith(blobs.NEW_PREFIX) for name in synced)
    synced.clear()
    small_files.keep_bodies({digest: body})  # another process may not have written the name to the disk yet
    assert str(path.parent) in synced


def test_one_that_the_disk_refuses_takes_no_other_along(monkeypatch: pytest.MonkeyPatch) -> None:
    refused, fsync = next(iter(BODIES)), os.fsync

    def refusing(descriptor: int) -> None:
        if os.fstat(descriptor).st_size == len(BODIES[refused]) and os.pread(descriptor, 100, 0) == BODIES[refused]:
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(descriptor)

    monkeypatch.setattr(
        os, "open", lambda path, flags, mode=0o777, *, open_=os.open: open_(path, _readable(flags), mode)
    )
    monkeypatch.setattr(os, "fsync", refusing)
    failed = small_files.keep_bodies(BODIES)
    assert list(failed) == [refused]
    assert "No space left" in str(failed[refused])
    assert not blobs.local_path(refused).exists()
    assert list(blobs.local_path(refused).parent.iterdir()) == []
    kept({digest: body for digest, body in BODIES.items() if digest != refused})


def _readable(flags: int) -> int:
    return flags & ~os.O_WRONLY | os.O_RDWR if flags & os.O_WRONLY else flags


def test_a_folder_that_cannot_be_written_to_the_disk_fails_its_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blobs, "sync_to_disk", raising(OSError(errno.EIO, "Input/output error")))
    assert set(small_files.keep_bodies(BODIES)) == set(BODIES)
