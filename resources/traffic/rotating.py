"""Puts a log aside that has grown too large, and removes what has been counted. Loses no line.

nginx goes on writing to a file that was renamed until it is told to open its logs anew (USR1): such
a file is read like the others, and removed when it has been quiet for a minute.
"""

import os
import signal
from contextlib import suppress
from pathlib import Path

from . import journal

QUIET_SECONDS = 60


def rotate(log: Path, max_bytes: int, nginx_pid_file: Path, now: float) -> bool:
    """Puts the log aside if it is too large; whether nginx was told to open its logs anew.

    Told it is as well when there is no log, as after a rotation that was cut short. Does nothing
    where nginx does not run: whoever runs it elsewhere rotates its log.
    """
    nginx = _living_nginx(nginx_pid_file)
    if nginx is None:
        return False
    with suppress(FileNotFoundError):
        if log.stat().st_size < max_bytes:
            return False
        log.rename(log.with_name(f"{log.name}.{int(now * 1000):013d}"))
    with suppress(ProcessLookupError):
        os.kill(nginx, signal.SIGUSR1)
    return True


def remove(path: Path, log: Path, now: float) -> bool:
    """Removes a counted file that `rotate` put aside, once nobody writes to it any more; whether it did."""
    with suppress(FileNotFoundError):
        quiet = now - path.stat().st_mtime > QUIET_SECONDS
        if quiet and log.exists() and journal.is_put_aside_here(path, log):
            path.unlink()
            return True
    return False


def _living_nginx(pid_file: Path) -> int | None:
    """The number of nginx' master, if it still is that: USR1 would end most other processes."""
    try:
        pid = int(pid_file.read_text())
        return pid if Path(f"/proc/{pid}/comm").read_text().strip() == "nginx" else None
    except (OSError, ValueError):
        return None
