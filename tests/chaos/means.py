"""What this machine lets us break: a small disk, names, the clock. Whatever it does not has its reason."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.names import Names

APART = "TARRY_CHAOS_APART"
"""Set in the process that has mounts of its own."""
LIBRARIES = ("/usr/lib/*/faketime/libfaketimeMT.so.1", "/usr/lib/faketime/libfaketimeMT.so.1")
DISK_MEGABYTES = 256
NO_MOUNTS = "file systems are mounted by root only, with unshare"
NO_CLOCK = "libfaketime is not installed (nor named by FAKETIME_LIBRARY)"


@dataclass(slots=True)
class Means:
    """`disk` is a small file system for the site's data, `clock` the file that sets its clock. None: there is none."""

    disk: Path | None = None
    names: Names | None = None
    clock: Path | None = None


def move_apart(arguments: Sequence[str]) -> None:
    """Becomes a process with mounts of its own, if it can: they end with it, whatever happens."""
    if os.getuid() == 0 and APART not in os.environ and shutil.which("unshare"):
        command = ["unshare", "--mount", "--propagation", "private", sys.executable, "-m", "tests.chaos", *arguments]
        os.execvpe(command[0], command, {**os.environ, APART: "1"})


def can_mount() -> bool:
    return os.environ.get(APART) == "1"


@contextmanager
def running(data: Path, folder: Path, host: str, address: str, library: str) -> Iterator[Means]:
    """All that there can be, for a site with its data there. `library` is empty if its clock is to be left alone."""
    with _small_disk(data) as disk, _own_names(folder, host, address) as names:
        yield Means(disk, names, folder / "clock" if library else None)


@contextmanager
def _small_disk(folder: Path) -> Iterator[Path | None]:
    """The folder on a small file system, which goes with the folder that it is in."""
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
    """A name server that all processes ask that are started from now on."""
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


def clock_library() -> str:
    """The library that lends processes another clock; empty where there is none."""
    named = os.environ.get("FAKETIME_LIBRARY")
    found = [named] if named else [str(path) for pattern in LIBRARIES for path in Path("/").glob(pattern[1:])]
    return next((path for path in found if Path(path).exists()), "")


def clock_environment(library: str, file: Path) -> dict[str, str]:
    """What has processes take the time from that file, read once a second. Monotonic clocks stay as they are."""
    step(file, 0)
    return {
        "LD_PRELOAD": library,
        "FAKETIME_TIMESTAMP_FILE": str(file),
        "FAKETIME_CACHE_DURATION": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_DISABLE_SHM": "1",
    }


def step(file: Path, seconds: int) -> None:
    """Puts the clock so far ahead of the true one, or behind it."""
    new = file.with_suffix(".new")
    new.write_text(f"{seconds:+d}\n")
    new.replace(file)
