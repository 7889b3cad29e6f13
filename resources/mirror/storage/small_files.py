"""Keeps the bytes of many small files at once: each folder is written to the disk once for all of its new names."""

import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from uuid import uuid4

from resources import database
from resources.disk import account, room
from retry import metrics

from ..errors import StorageError
from . import blobs

FILES_PER_THREAD, KEEPING_THREADS = 50, 4
"""A slow disk takes several waits at a time as quickly as one. With few files a second thread only costs time."""

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


def keep_bodies(bodies: Mapping[str, bytes]) -> dict[str, StorageError]:
    """Keeps many bodies by their digests, as blobs.keep_blob does. Waits for the disk, in several threads for many.

    Returns the errors of those that could not be kept, by digest.
    """
    portions = list(database.split_portions(bodies.items(), FILES_PER_THREAD))
    with metrics.time_call("storage"):
        if len(portions) < 2:
            return _keep_some(bodies.items())
        return dict(chain.from_iterable(failed.items() for failed in _threads().map(_keep_some, portions)))


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(KEEPING_THREADS, thread_name_prefix="files")


@dataclass(slots=True)
class _NewFile:
    """A file that is written under another name than its own. `folders` have new names by it, not on the disk yet.

    `taken_bytes` are in the account of the disk until it has its name.
    """

    digest: str
    target: str
    name: str = ""
    descriptor: int = -1
    taken_bytes: int = 0
    folders: list[str] = field(default_factory=list)

    def write(self, body: bytes) -> None:
        """Writes it, unless it is there. Waits for no disk."""
        now = time.time_ns()
        with suppress(FileNotFoundError):
            os.utime(self.target, ns=(now, now))  # the sweeper of a leftover sees that it is kept again
            return
        room.add_file(self.digest, len(body), has_room=False)
        self.taken_bytes = account.disk_bytes(len(body))
        folder = self.folders[0]
        self.name = f"{folder}/{blobs.NEW_PREFIX}{uuid4().hex}"
        try:
            self.descriptor = os.open(self.name, _NEW_FILE, 0o600)
        except FileNotFoundError:
            self.folders += _make_folders(folder)
            self.descriptor = os.open(self.name, _NEW_FILE, 0o600)
        left = memoryview(body)
        while left:
            left = left[os.write(self.descriptor, left) :]

    def sync(self) -> None:
        """Waits until it is on the disk."""
        if self.descriptor >= 0:
            now = time.time_ns()
            os.utime(self.descriptor, ns=(now, now))
            os.fsync(self.descriptor)
            self._close()

    def place(self) -> None:
        """Gives it its name."""
        if self.name:
            os.replace(self.name, self.target)
            self.name, self.taken_bytes = "", 0

    def discard(self) -> None:
        self._close()
        if self.name:
            with suppress(OSError):
                os.unlink(self.name)
        if self.taken_bytes:
            room.subtract_file(self.digest, self.taken_bytes)

    def _close(self) -> None:
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def _keep_some(bodies: Iterable[tuple[str, bytes]]) -> dict[str, StorageError]:
    """Takes each step for all files before the next one: the first wait for the disk serves most of them."""
    root, failed = str(blobs.local_blob_folder()), dict[str, StorageError]()
    contents = dict(bodies)
    files = [_new_file(root, digest) for digest in contents]
    steps: tuple[Callable[[_NewFile], None], ...] = (
        lambda file: file.write(contents[file.digest]),
        _NewFile.sync,
        _NewFile.place,
    )
    for step in steps:
        for file in files:
            if file.digest not in failed:
                _take_step(step, file, failed)
    _sync_folders([file for file in files if file.digest not in failed], failed)
    return failed


def _new_file(root: str, digest: str) -> _NewFile:
    folder = f"{root}/{digest[:2]}/{digest[2:4]}"
    return _NewFile(digest, f"{folder}/{digest}", folders=[folder])


def _take_step(step: Callable[[_NewFile], None], file: _NewFile, failed: dict[str, StorageError]) -> None:
    try:
        step(file)
    except BaseException as error:
        file.discard()
        if not isinstance(error, OSError):
            raise
        failed[file.digest] = blobs.to_storage_error(error)


def _sync_folders(files: Iterable[_NewFile], failed: dict[str, StorageError]) -> None:
    """Writes each folder with new names to the disk, once; also of a file that another process may not have synced."""
    digests = defaultdict[str, set[str]](set)
    for file in files:
        for folder in file.folders:
            digests[folder].add(file.digest)
    for folder, of_folder in digests.items():
        try:
            blobs.sync_to_disk(folder)
        except OSError as error:
            failed |= dict.fromkeys(of_folder, blobs.to_storage_error(error))


def _make_folders(folder: str) -> list[str]:
    """Makes the folder, and those above it that are missing. Returns the folders that have new names now."""
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:  # another process made it, and may not have synced its name yet
        return [os.path.dirname(folder)]
    except FileNotFoundError:
        return [*_make_folders(os.path.dirname(folder)), *_make_folders(folder)]
    return [os.path.dirname(folder)]
