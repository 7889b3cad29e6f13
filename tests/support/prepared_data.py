"""Static files and an empty database of one stack for those that this process starts later: they are the same."""

import atexit
import os
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from project.paths import DataDirectory


class PreparedData:
    """The data that the start of the first stack has made, until this process ends."""

    def __init__(self) -> None:
        self._taken: DataDirectory | None = None

    def take(self, data: Path) -> None:
        """Keeps the data of a stack that has just started, if there are none yet. Each stack makes its own admin."""
        if self._taken is None:
            kept = DataDirectory(Path(tempfile.mkdtemp(prefix="tarry-prepared-", dir="/tmp")))
            atexit.register(shutil.rmtree, kept.root, ignore_errors=True)
            _copy_static_files(DataDirectory(data), kept)
            if (database := DataDirectory(data).database).exists():
                with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(kept.database)) as target:
                    source.backup(target)
                    target.execute("DELETE FROM auth_user")
                    target.commit()
            self._taken = kept

    def give(self, data: Path) -> None:
        """Lets a stack without data find them. Its start still brings all of it up to date."""
        if self._taken is not None and not data.exists():
            data.mkdir(mode=0o700)
            _copy_static_files(self._taken, DataDirectory(data))
            if self._taken.database.exists():
                shutil.copy2(self._taken.database, DataDirectory(data).database)


def _copy_static_files(source: DataDirectory, target: DataDirectory) -> None:
    shutil.copytree(source.static, target.static, copy_function=_link)
    shutil.copy2(source.collected, target.collected)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)


PREPARED_DATA = PreparedData()
