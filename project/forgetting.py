"""Removes files of the hot cache that nginx does not: what is whole after the clock was set back, what never will be.

It would give its hot answers until their hour comes again. Removing their files itself it logs of each that it is gone.
"""

import os
import re
import signal
from pathlib import Path

from . import reloading
from .starting import StartError

ANSWER = re.compile("[0-9a-f]{32}")
"""What nginx calls the file of an answer. What it still writes has another name."""
UNFINISHED = re.compile(ANSWER.pattern + r"\.[0-9]{10}")


def remove_unfinished(hot: Path) -> None:
    """Removes what killed workers were writing: nginx never looks at it again."""
    for file in hot.rglob("*"):
        if UNFINISHED.fullmatch(file.name):
            file.unlink(missing_ok=True)


def forget(hot: Path, pid_file: Path) -> bool:
    """Removes their files, and has workers begin that have none of them open; False where no nginx runs."""
    try:
        pid = reloading.running(pid_file)
    except StartError:
        return False
    for file in hot.rglob("*"):
        if ANSWER.fullmatch(file.name):
            file.unlink(missing_ok=True)
    os.kill(pid, signal.SIGHUP)
    return True
