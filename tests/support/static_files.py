"""The static files of one stack for those that this process starts later: they are the same."""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

from project.paths import DataDirectory


class StaticFiles:
    """The static files that the first stack has collected, until this process ends."""

    def __init__(self) -> None:
        self._taken: DataDirectory | None = None

    def take(self, data: Path) -> None:
        """Keeps the static files that a running stack has collected, if there are none yet."""
        if self._taken is None:
            kept = DataDirectory(Path(tempfile.mkdtemp(prefix="tarry-static-", dir="/tmp")))
            atexit.register(shutil.rmtree, kept.root, ignore_errors=True)
            _copy(DataDirectory(data), kept)
            self._taken = kept

    def give(self, data: Path) -> None:
        """Lets a stack that has none find them. It still checks that they are those of its sources."""
        if self._taken is not None and not data.exists():
            data.mkdir(mode=0o700)
            _copy(self._taken, DataDirectory(data))


def _copy(source: DataDirectory, target: DataDirectory) -> None:
    shutil.copytree(source.static, target.static, copy_function=_link)
    shutil.copy2(source.collected, target.collected)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)


STATIC_FILES = StaticFiles()
