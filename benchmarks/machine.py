"""How many clients this machine allows at once. Scaling down is said, never silent."""

import resource
from pathlib import Path

from benchmarks.figures import Note

SPARE_FILES = 1000
SPARE_PORTS = 4000


def raise_file_limit() -> int:
    """As many open files as this user may have, the processes started from here included; returns the limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:  # root may go beyond the hard limit
        most = int(Path("/proc/sys/fs/nr_open").read_text())
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    except (OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def allowed_clients(wanted: int) -> tuple[int, list[Note]]:
    """So many clients can wait at once here, and a note when they are fewer than wanted."""
    files = raise_file_limit()
    low, high = (int(end) for end in Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    reasons = {
        # One worker of nginx may get them all, with a connection to each side.
        f"{files:,} open files a process, two for each client in nginx": (files - SPARE_FILES) // 2,
        f"{high - low:,} local ports": high - low - SPARE_PORTS,
    }
    reason, most = min(reasons.items(), key=lambda item: item[1])
    if most >= wanted:
        return wanted, []
    return most, [Note(f"scaled down from {wanted:,} to {most:,} clients: {reason}")]
