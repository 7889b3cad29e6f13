"""Puts a log aside that has grown too large, and removes what has been counted. Loses no line but by `drop`.

nginx goes on writing to a file that was renamed until it is told to open its logs anew (USR1): such
a file is read like the others, and removed when it has been quiet for a minute. Imports nothing of Django.
"""

import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from . import journal

QUIET_SECONDS = 60

KEPT_LOGS = 10
"""What was put aside may take so many times the size at which a log is put aside, as long as nobody counts it."""


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
        log.rename(log.with_name(f"{log.name}.{int(now * 1_000_000):016d}"))
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


def drop(log: Path, most_bytes: int, counted_bytes: Mapping[str, int]) -> int:
    """Removes the oldest of what `rotate` put aside, until the rest takes that much at the most.

    Returns how many bytes are lost by that: those that were not counted. `counted_bytes` has files by identity.
    """
    files = journal.put_aside_here(log)
    sizes = [_size(path) for path in files]
    excess = [path for number, path in enumerate(files) if sum(sizes[number:]) > most_bytes]
    return sum(_dropped(path, counted_bytes) for path in excess)


def _dropped(path: Path, counted_bytes: Mapping[str, int]) -> int:
    with suppress(FileNotFoundError), path.open("rb") as file:
        path.unlink()
        return os.fstat(file.fileno()).st_size - counted_bytes.get(journal.identity(file.fileno()), 0)
    return 0  # it was counted, and removed


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _living_nginx(pid_file: Path) -> int | None:
    """The number of nginx' master, if it still is that: USR1 would end most other processes."""
    try:
        pid = int(pid_file.read_text())
        return pid if Path(f"/proc/{pid}/comm").read_text().strip() == "nginx" else None
    except (OSError, ValueError):
        return None
