"""Limits of this machine: the number of clients it allows at once, and the processor time and memory of processes.

Scaling down is reported. A process that ends meanwhile counts as nothing.
"""

import resource
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

from .figures import Note

SPARE_FILES = 1000
SPARE_PORTS = 4000


def raise_file_limit() -> int:
    """Allows as many open files as this user may have, also to processes started from here; returns the limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:  # root may go beyond the hard limit
        most = int(Path("/proc/sys/fs/nr_open").read_text())
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    except (OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def allowed_clients(wanted: int) -> tuple[int, list[Note]]:
    """The number of clients that can wait at once here, and a note when they are fewer than wanted."""
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


KILOBYTE, MEGABYTE = 1024, 1024 * 1024


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes. `own` is the memory of the process alone (USS); `share` divides shared pages among processes (PSS)."""

    own: int = 0
    share: int = 0
    resident: int = 0

    def __add__(self, other: "Memory") -> "Memory":
        return Memory(self.own + other.own, self.share + other.share, self.resident + other.resident)


def memory(pids: Iterable[int]) -> Memory:
    total = Memory()
    for pid in pids:
        try:
            found = psutil.Process(pid).memory_full_info()
        except psutil.NoSuchProcess:
            continue
        total += Memory(found.uss, found.pss, found.rss)
    return total


def cpu_seconds(pids: Iterable[int]) -> float:
    """User and system time since each of them began. Does not count children that have ended."""
    total = 0.0
    for pid in pids:
        try:
            times = psutil.Process(pid).cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total
