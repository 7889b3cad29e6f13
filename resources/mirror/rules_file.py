"""The file of rules for URLs, MIRROR_RULES_FILE: read at run time, and again when it has changed.

A file that cannot be read leaves what was read before. System checks tell what is wrong with it.
"""

import logging
import os
from pathlib import Path

from django.conf import settings

from ..canonical import clearurls
from ..canonical.clearurls import RulesFile
from ..errors import RulesError

NO_FILE = RulesFile()

_log = logging.getLogger("tarry.mirroring")


def read_file() -> tuple[RulesFile, list[str]]:
    """The rules of MIRROR_RULES_FILE, and what is wrong with some of them. Raises RulesError."""
    path = settings.MIRROR_RULES_FILE
    if not path:
        return NO_FILE, []
    try:
        if not Path(path).is_file():  # a pipe would be waited for
            raise RulesError(f"there is no file {path!r}")
        with Path(path).open("rb") as opened:
            content = opened.read(clearurls.MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        raise RulesError(f"it cannot be read: {error}") from error
    return clearurls.read(content.decode("utf-8", "replace"))


class LastFile:
    """The file as it was read last, and what the disk said of it then."""

    def __init__(self) -> None:
        self._stamp: tuple[object, ...] = ()
        self._found = NO_FILE

    def read(self) -> RulesFile:
        """Reads it when it has changed. A file that cannot be read leaves what there was."""
        stamp = _stamp(settings.MIRROR_RULES_FILE)
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._found, problems = read_file()
            except RulesError as error:
                _log.error("MIRROR_RULES_FILE is not used: what was read before holds", extra={"error": str(error)})
            else:
                for problem in problems:
                    _log.warning("MIRROR_RULES_FILE: a rule is left out", extra={"problem": problem})
        return self._found


def _stamp(path: str) -> tuple[object, ...]:
    try:
        found = os.stat(path) if path else None
    except (OSError, ValueError):
        return (path, "cannot be read")
    return (path, found and (found.st_mtime_ns, found.st_size, found.st_ino))
