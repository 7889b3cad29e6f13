"""What this machine allows: file descriptors and lengths of queues of connections."""

import resource
from dataclasses import dataclass
from pathlib import Path

WANTED_BACKLOG = 16384
MOST_KEPT_OPEN = 1000


@dataclass(frozen=True, slots=True)
class FileLimits:
    """Open files that a process may have; connections, and files of hot answers, that an nginx worker may hold."""

    files: int
    connections: int
    kept_open: int = 16


def listen_backlog() -> int:
    """Connections that may wait to be accepted: a herd that is sent back at once comes in one moment."""
    try:
        allowed = int(Path("/proc/sys/net/core/somaxconn").read_text())
    except (OSError, ValueError):
        allowed = 4096
    return min(WANTED_BACKLOG, allowed)


def raise_file_limit() -> int:
    """Raises this process's soft limit of open files to the hard one; returns it. Children inherit it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard if hard != resource.RLIM_INFINITY else 1_048_576


def nginx_limits(files: int, waiting_clients: int) -> FileLimits:
    """Two connections per waiting client, one to each side, and some for the rest, as far as files allow."""
    kept_open = min(MOST_KEPT_OPEN, files // 16)
    connections = max(64, min(2 * waiting_clients + 4096, files - 64 - kept_open))
    return FileLimits(files=files, connections=connections, kept_open=kept_open)
