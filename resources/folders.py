"""Folders for files of moments. Each is held by a lock, which ends with its process: others remove what it has left.

Imports nothing of Django.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp

NEW, HELD = "new-", "held-"


@contextmanager
def held(directory: Path) -> Iterator[Path]:
    """A folder of the caller's own, removed at the end. Removes those whose processes were killed. Raises OSError."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    remove_left_behind(directory)
    new = Path(mkdtemp(prefix=NEW, dir=directory))
    with opened(new, os.O_RDONLY) as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        folder = new.rename(directory / new.name.replace(NEW, HELD, 1))  # from here on others look at its lock
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def remove_left_behind(directory: Path) -> None:
    """Removes the folders there that belong to no process any more."""
    for path in directory.glob(f"{HELD}*"):
        with suppress(FileNotFoundError), opened(path, os.O_RDONLY) as descriptor:  # others remove it too
            if takes_lock(descriptor):
                shutil.rmtree(path, ignore_errors=True)


def takes_lock(descriptor: int) -> bool:
    """Whether nobody else has the lock. If so, it ends with the descriptor."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def opened(path: Path, flags: int) -> Iterator[int]:
    """The descriptor of a file or a folder. Raises OSError."""
    descriptor = os.open(path, flags, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)  # and with it the lock
