"""Scratch folders. A lock holds each; it ends with its process, and then other processes remove the folder.

Imports nothing of Django.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp

NEW_PREFIX, HELD_PREFIX = "new-", "held-"


@contextmanager
def hold_folder(directory: Path) -> Iterator[Path]:
    """Yields a folder of the caller's own, removed at the end. Removes folders of killed processes. Raises OSError."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    remove_orphaned_folders(directory)
    new = Path(mkdtemp(prefix=NEW_PREFIX, dir=directory))
    with open_descriptor(new, os.O_RDONLY) as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        folder = new.rename(
            directory / new.name.replace(NEW_PREFIX, HELD_PREFIX, 1)
        )  # from here on other processes check its lock
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def remove_orphaned_folders(directory: Path) -> None:
    for path in directory.glob(f"{HELD_PREFIX}*"):
        with (
            suppress(FileNotFoundError),
            open_descriptor(path, os.O_RDONLY) as descriptor,
        ):  # other processes remove it too
            if try_file_lock(descriptor):
                shutil.rmtree(path, ignore_errors=True)


def try_file_lock(descriptor: int) -> bool:
    """Takes the lock unless another process has it; tells whether it did. The lock ends with the descriptor."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def open_descriptor(path: Path, flags: int) -> Iterator[int]:
    """Opens a file or a folder; yields its descriptor. Raises OSError."""
    descriptor = os.open(path, flags, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)  # releases the lock, too
