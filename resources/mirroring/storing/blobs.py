"""Bytes of blobs, by their digest: in the storage, or on this machine until they are uploaded. Reads and writes no row.

Bytes come before the rows that name them, and go after them.
"""

import errno
import os
import shutil
import time
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO
from uuid import uuid4

from django.conf import settings
from django.core.files.storage import FileSystemStorage, default_storage

from ..knowing.models import Blob
from . import links, remote

FOLDER = "mirror"
NEW, ASIDE = ".new-", ".aside"
NO_LINK = frozenset({errno.EXDEV, errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK})
"""Errors of file systems that cannot give this file a second name there."""


def name_of(digest: str) -> str:
    """The name of a blob in the storage. Says nothing of whether it is there."""
    return f"{FOLDER}/{digest[:2]}/{digest[2:4]}/{digest}"


def is_elsewhere() -> bool:
    """Whether the storage is no file system: then bytes are held on this machine until they are uploaded."""
    return not isinstance(default_storage, FileSystemStorage)


def shelves() -> Path:
    """The folder of this machine's files: those of the storage itself, or those that are not uploaded yet."""
    if is_elsewhere():
        return Path(settings.MIRROR_HELD_DIRECTORY)
    return Path(default_storage.path(FOLDER))


def path_of(digest: str) -> Path:
    """Where the bytes are if they are on this machine."""
    return shelves() / digest[:2] / digest[2:4] / digest


def keep(source: Path | bytes, digest: str) -> str:
    """Keeps bytes of that digest for good, once however often; returns their name in the storage.

    They are on the disk when this returns. A file stays its owner's, who removes it. Raises StorageError.
    """
    target = path_of(digest)
    with remote.told():
        if not _touch(target):
            _make_folder(target.parent)
            _place(source, target)
        _sync(target.parent)  # also of what another process has placed: it may not have come so far
    return name_of(digest)


def open_blob(blob: Blob) -> IO[bytes]:
    """The bytes of a blob, from wherever they are. Raises FileNotFoundError or StorageError."""
    with remote.told():
        try:
            return path_of(blob.digest).open("rb")
        except FileNotFoundError:
            if not is_elsewhere() or blob.uploaded_at is None:
                raise
        found: IO[bytes] = default_storage.open(blob.name)
        return found


def remove(blob: Blob, *, kept_before: float | None = None) -> None:
    """Removes the bytes here and in the storage. Its row was removed before, or says that it was taken down.

    What was kept again after `kept_before` (Unix seconds; default: now) stays here. Raises StorageError.
    """
    remove_here(blob.digest, kept_before=kept_before)
    if is_elsewhere():
        remote.delete(name_of(blob.digest))


def remove_here(digest: str, *, kept_before: float | None = None) -> bool:
    """Removes the file of this machine unless it was kept again meanwhile; whether it is gone. Raises StorageError.

    nginx serves it no more in any case: its links go last, when there is nothing that they could be made of.
    """
    try:
        return _remove_file(digest, kept_before)
    finally:
        links.withdraw(digest)


def _remove_file(digest: str, kept_before: float | None) -> bool:
    """It is put aside before its age is read: who keeps the same bytes from then on finds nothing, and brings them."""
    target = path_of(digest)
    aside = target.with_name(f"{digest}.{uuid4().hex}{ASIDE}")  # of its own: others may remove it at the same time
    before = time.time() if kept_before is None else kept_before
    with remote.told():
        try:
            target.rename(aside)
            was_kept_again = aside.stat().st_mtime > before
            if was_kept_again:
                with suppress(FileExistsError):
                    os.link(aside, target)
            aside.unlink()
        except FileNotFoundError:  # another process removes it too
            return True
    return not was_kept_again


def _touch(target: Path) -> bool:
    """Whether it is there. If so it is new again: nobody takes it for one that was left behind."""
    now = time.time_ns()  # the kernel's own stamp would be some milliseconds old
    try:
        os.utime(target, ns=(now, now))
    except FileNotFoundError:
        return False
    return True


def _make_folder(folder: Path) -> None:
    """Makes the folder, so that a failure of the machine does not take it away again."""
    made = []
    while not folder.is_dir():
        made.append(folder)
        folder = folder.parent
    for each in reversed(made):
        with suppress(FileExistsError):  # another process makes it too
            each.mkdir(mode=0o700)
        _sync(each.parent)


def _place(source: Path | bytes, target: Path) -> None:
    """Under its name it appears whole and written to the disk, or not at all."""
    if isinstance(source, Path):
        _touch(source)
        _sync(source)
        try:
            os.link(source, target)
        except FileExistsError:  # another process kept the same just now
            return
        except OSError as error:
            if error.errno not in NO_LINK:
                raise
        else:
            return
    with NamedTemporaryFile(prefix=NEW, dir=target.parent, delete=False) as new:
        try:
            _write(source, new)
            _touch(Path(new.name))
            os.replace(new.name, target)
        except BaseException:
            os.unlink(new.name)
            raise


def _write(source: Path | bytes, new: IO[bytes]) -> None:
    if isinstance(source, Path):
        with source.open("rb") as file:
            shutil.copyfileobj(file, new, 1024 * 1024)
    else:
        new.write(source)
    new.flush()
    os.fsync(new.fileno())


def _sync(path: Path) -> None:
    """Waits until a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
