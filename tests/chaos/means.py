"""The means of this machine to break parts: a small disk, names, the clock. Each missing one has its reason."""

import mmap
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .names import Names

APART = "TARRY_CHAOS_APART"
"""Set in the process that has mounts of its own."""
SOURCE = Path(__file__).parent / "clock.c"
UNSHARED = ("unshare", "--mount", "--propagation", "private")
TRIAL_SECONDS = 10
DISK_MEGABYTES = 1024
"""More than the requests of ten minutes store: the disk is full only while a fault fills it."""
NO_MOUNTS = "file systems are mounted only by root that may (CAP_SYS_ADMIN), with unshare"
NO_CLOCK = "there is no C compiler (cc) for what lends processes a clock"


@dataclass(frozen=True, slots=True)
class Clock:
    """The clock of all processes that have this environment."""

    environment: dict[str, str]
    _ahead: mmap.mmap

    def step(self, seconds: int) -> None:
        """Sets the clock so many seconds ahead of the true one, or behind it, in all processes at once."""
        self._ahead[:] = struct.pack("@l", seconds)


@dataclass(slots=True)
class Means:
    """`disk` is a small file system for the site's data. A missing part is None."""

    disk: Path | None = None
    names: Names | None = None
    clock: Clock | None = None


def move_apart(arguments: Sequence[str]) -> None:
    """Replaces this process by one with mounts of its own, where that is possible. The mounts end with it."""
    if APART not in os.environ and _may_mount():
        command = [*UNSHARED, sys.executable, "-m", "tests.chaos", *arguments]
        os.execvpe(command[0], command, {**os.environ, APART: "1"})


def _may_mount() -> bool:
    """Tells whether a process with mounts of its own gets a file system there: in a container, root may often not."""
    if os.getuid() != 0 or not shutil.which(UNSHARED[0]):
        return False
    trial = [*UNSHARED, "mount", "-t", "tmpfs", "none", tempfile.gettempdir()]
    return subprocess.run(trial, capture_output=True, check=False, timeout=TRIAL_SECONDS).returncode == 0


def can_mount() -> bool:
    return os.environ.get(APART) == "1"


def can_compile() -> bool:
    return shutil.which("cc") is not None


@contextmanager
def running(data: Path, folder: Path, host: str, address: str) -> Iterator[Means]:
    with _small_disk(data) as disk, _own_names(folder, host, address) as names, own_clock(folder) as clock:
        yield Means(disk, names, clock)


@contextmanager
def _small_disk(folder: Path) -> Iterator[Path | None]:
    """A folder on a small file system, unmounted and removed at the end. None where mounting is impossible."""
    if not can_mount():
        yield None
        return
    folder.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MEGABYTES}m,mode=700", "none", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)
        shutil.rmtree(folder.parent, ignore_errors=True)


@contextmanager
def _own_names(folder: Path, host: str, address: str) -> Iterator[Names | None]:
    """A name server for all processes started from now on."""
    names = Names(host, address)
    if not can_mount():
        yield None
        return
    names.start()
    file = folder / "resolv.conf"
    file.write_text(names.configuration)
    subprocess.run(["mount", "--bind", file, "/etc/resolv.conf"], check=True)
    try:
        yield names
    finally:
        subprocess.run(["umount", "/etc/resolv.conf"], check=True)
        names.stop()


@contextmanager
def own_clock(folder: Path) -> Iterator[Clock | None]:
    """A clock for processes that get its environment. None where it cannot be compiled."""
    if not can_compile():
        yield None
        return
    library, file = folder / "clock.so", folder / "clock"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, SOURCE], check=True)
    file.write_bytes(struct.pack("@l", 0))
    with file.open("r+b") as opened, mmap.mmap(opened.fileno(), 0) as seconds:
        yield Clock({"LD_PRELOAD": str(library), "CHAOS_CLOCK": str(file)}, seconds)
