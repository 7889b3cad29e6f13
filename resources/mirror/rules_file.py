"""The file of URL rules, MIRROR_RULES_FILE: read at run time, and again after each change.

If the file cannot be read, the rules from the last reading stay. System checks report its problems.
"""

import logging
import os
from pathlib import Path

from django.conf import settings

from .canonical import clearurls
from .canonical.clearurls import RulesFile
from .errors import RulesError

NO_RULES_FILE = RulesFile()

_log = logging.getLogger("tarry.mirroring")


def read_rules_file() -> tuple[RulesFile, list[str]]:
    """Returns the rules of MIRROR_RULES_FILE, and the problems in it. Raises RulesError."""
    path = settings.MIRROR_RULES_FILE
    if not path:
        return NO_RULES_FILE, []
    try:
        if not Path(path).is_file():  # reading a pipe would block
            raise RulesError(f"there is no file {path!r}")
        with Path(path).open("rb") as opened:
            content = opened.read(clearurls.MAX_RULES_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        raise RulesError(f"it cannot be read: {error}") from error
    return clearurls.parse_rules_file(content.decode("utf-8", "replace"))


class LastRulesFile:
    """The file's rules at the last reading, and its state on the disk then."""

    def __init__(self) -> None:
        self._stamp: tuple[object, ...] = ()
        self._found = NO_RULES_FILE

    def read(self) -> RulesFile:
        """Reads the file if it has changed. If it cannot be read, the last rules stay."""
        stamp = _file_stamp(settings.MIRROR_RULES_FILE)
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._found, problems = read_rules_file()
            except RulesError as error:
                _log.error("MIRROR_RULES_FILE is not used: what was read before holds", extra={"error": str(error)})
            else:
                for problem in problems:
                    _log.warning("MIRROR_RULES_FILE: a rule is left out", extra={"problem": problem})
        return self._found


def _file_stamp(path: str) -> tuple[object, ...]:
    try:
        found = os.stat(path) if path else None
    except (OSError, ValueError):
        return (path, "cannot be read")
    return (path, found and (found.st_mtime_ns, found.st_size, found.st_ino))
