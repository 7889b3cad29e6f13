"""Folders for what somebody sends, until it is stored; and how much of it is read at a time on this machine.

Both are held by locks, which end with their process. Imports nothing of Django.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from resources import folders

from ..errors import BusyError

PAUSE_SECONDS = 0.05
DJANGOS = "*.upload*"
"""Files that Django has made there itself. Their names end as those that were sent."""
LEFT_BEHIND_SECONDS = 3600.0
"""They have no lock: those of this age belong to a process that was killed."""


@contextmanager
def folder(directory: Path) -> Iterator[Path]:
    """A folder of the caller's own, removed at the end. Removes what killed processes have left."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    remove_left_behind(directory)
    with folders.held(directory) as held:
        yield held


@contextmanager
def turn(directory: Path, at_once: int, wait_seconds: float) -> Iterator[None]:
    """One of so many places on this machine, waited for. Raises BusyError when none becomes free."""
    until = time.monotonic() + wait_seconds
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    while True:
        for number in range(at_once):
            with folders.opened(directory / f"turn-{number}", os.O_RDWR | os.O_CREAT) as descriptor:
                if folders.takes_lock(descriptor):
                    yield
                    return
        if time.monotonic() > until:
            raise BusyError("This site is reading as many files as it can already. Send this one again in a moment.")
        time.sleep(PAUSE_SECONDS)


def remove_left_behind(directory: Path) -> None:
    """Removes what Django has left there long ago."""
    oldest = time.time() - LEFT_BEHIND_SECONDS
    for path in directory.glob(DJANGOS):
        with suppress(FileNotFoundError):  # another process removes it too
            if path.stat().st_mtime < oldest:
                path.unlink()
