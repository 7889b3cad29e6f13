"""What processes use, as the kernel counts it. A process that ends meanwhile counts as nothing."""

from collections.abc import Iterable
from dataclasses import dataclass

import psutil

KILOBYTE, MEGABYTE = 1024, 1024 * 1024


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes. `own` is what would be free without the process (USS); `share` divides what is shared (PSS)."""

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
