"""Has nginx forget its hot answers after the clock was set back: it would give them until their hour comes again."""

import os
import re
import signal
from pathlib import Path

from . import reloading
from .starting import StartError

ANSWER = re.compile("[0-9a-f]{32}")
"""What nginx calls the file of an answer. What it still writes has another name."""


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
