"""Folders for what somebody sends, until it is stored; and how much of it is read at a time on this machine.

Both are held by locks, which end with their process: what a killed one has left is removed by the next.
Imports nothing of Django.
"""

import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp

from ..errors import BusyError

NEW, HELD = "new-", "held-"
PAUSE_SECONDS = 0.05
LEFT_BEHIND_SECONDS = 3600.0
"""Files that Django has made here itself have no lock: those of this age belong to a process that was killed."""


@contextmanager
def folder(directory: Path) -> Iterator[Path]:
    """A folder of the caller's own, removed at the end. Removes those whose processes were killed."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    remove_left_behind(directory)
    new = Path(mkdtemp(prefix=NEW, dir=directory))
    with _opened(new, os.O_RDONLY) as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        held = new.rename(directory / new.name.replace(NEW, HELD, 1))  # from here on others look at its lock
        try:
            yield held
        finally:
            shutil.rmtree(held, ignore_errors=True)


@contextmanager
def turn(directory: Path, at_once: int, wait_seconds: float) -> Iterator[None]:
    """One of so many places on this machine, waited for. Raises BusyError when none becomes free."""
    until = time.monotonic() + wait_seconds
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    while True:
        for number in range(at_once):
            with _opened(directory / f"turn-{number}", os.O_RDWR | os.O_CREAT) as descriptor:
                if _is_free(descriptor):
                    yield
                    return
        if time.monotonic() > until:
            raise BusyError("This site is reading as many files as it can already. Send this one again in a moment.")
        time.sleep(PAUSE_SECONDS)


def remove_left_behind(directory: Path) -> None:
    """Removes what belongs to no process any more."""
    oldest = time.time() - LEFT_BEHIND_SECONDS
    for path in directory.iterdir():
        with suppress(FileNotFoundError):  # another process removes it too
            if path.name.startswith(HELD):
                _remove_if_free(path)
            elif path.suffix == ".upload" and path.stat().st_mtime < oldest:
                path.unlink()


def _remove_if_free(path: Path) -> None:
    with _opened(path, os.O_RDONLY) as descriptor:
        if _is_free(descriptor):
            shutil.rmtree(path, ignore_errors=True)


def _is_free(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    descriptor = os.open(path, flags, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)  # and with it the lock
