"""Removes files of the hot cache that a killed nginx worker was writing: nginx never looks at them again.

Imports nothing of Django, for supervisord, where it would stay in memory for nothing.
"""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

NAME = re.compile(r"[0-9a-f]{32}\.[0-9]{10}")
"""What nginx calls the file of an answer until it has all of it."""


def remove(hot: Path) -> int:
    """Removes those that no process has open; returns how many."""
    found = [os.path.join(folder, name) for folder, _, names in os.walk(hot) for name in names if NAME.fullmatch(name)]
    held = set(_open_files()) if found else set()  # after they were found: nobody opens a file of before again
    gone = [path for path in found if os.path.realpath(path) not in held]
    for path in gone:
        Path(path).unlink(missing_ok=True)
    return len(gone)


def _open_files() -> Iterator[str]:
    """Paths that processes have open: those of its own user, as nginx is, and of others if it may see them."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(PermissionError, FileNotFoundError, ProcessLookupError):
            for number in os.listdir(process / "fd"):
                with suppress(OSError):  # it was closed meanwhile, or is none that has a path
                    yield os.readlink(process / "fd" / number)
