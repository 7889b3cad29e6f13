"""The files of the traffic log: the one that nginx writes, and those that were put aside. Counts nothing.

A file is known by its first line, not by its name or number: it stays the same file when it is
renamed or copied, and is another one when it was emptied and written anew.
"""

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

FIRST_BYTES = 4096
MOST_FILES = 20
DAY_SECONDS = 86_400
PACKED = (".gz", ".bz2", ".xz", ".zst")


@dataclass(frozen=True, slots=True)
class LogFile:
    """An open file with at least one line. `identity` is the digest of its first."""

    path: Path
    descriptor: int
    identity: str

    def is_still_the_same(self) -> bool:
        return identity(self.descriptor) == self.identity


@dataclass(frozen=True, slots=True)
class Slice:
    """Whole lines of a file, without the last one's end, and the position behind them."""

    data: bytes
    end: int


@contextmanager
def held(log: Path) -> Iterator[str | None]:
    """Keeps other passes away from these files; the name of this log, None when another pass is at it.

    The name is made once, and lies beside the log: each machine has its own.
    """
    with (log.parent / f"{log.name}.id").open("a+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        yield _name(file.fileno())


@contextmanager
def opened(log: Path, now: float) -> Iterator[list[LogFile]]:
    """The log's files, the oldest first, the one that is written last."""
    with ExitStack() as stack:
        found: list[LogFile] = []
        for path in [*_aside(log, now), log]:
            try:
                source = stack.enter_context(path.open("rb"))
            except FileNotFoundError:  # it was renamed just now: the next pass has it
                continue
            if known := identity(source.fileno()):
                found.append(LogFile(path, source.fileno(), known))
        yield found


def read(file: LogFile, start: int, most_bytes: int) -> Slice | None:
    """The whole lines from that position on, as far as the bytes reach; None when there is none yet.

    A line that is longer than all of them is passed over piece by piece, each piece as a line.
    """
    data = os.pread(file.descriptor, most_bytes, start)
    last = data.rfind(b"\n")
    if last >= 0:
        return Slice(data[:last], start + last + 1)
    return Slice(data, start + len(data)) if len(data) == most_bytes else None


def identity(descriptor: int) -> str:
    """What a file is known by, empty as long as it has no whole line."""
    first, end, _ = os.pread(descriptor, FIRST_BYTES, 0).partition(b"\n")
    return sha256(first).hexdigest()[:16] if end or len(first) == FIRST_BYTES else ""


def put_aside_here(log: Path) -> list[Path]:
    """The files that were put aside by rotating.py, the oldest first."""
    found = [path for path in log.parent.glob(f"{log.name}.*") if is_put_aside_here(path, log)]
    return sorted(found, key=lambda path: (_modified(path), path))


def is_put_aside_here(path: Path, log: Path) -> bool:
    """Whether the file was put aside by rotating.py, which names it by the time in microseconds."""
    return re.fullmatch(re.escape(log.name) + r"\.[0-9]{13,}", path.name) is not None


def _aside(log: Path, now: float) -> list[Path]:
    """The files that were put aside, here or by another program within a day. Not those that were compressed."""
    paths = [*log.parent.glob(f"{log.name}.*"), *log.parent.glob(f"{log.name}-*")]
    dated = [(_modified(path), path) for path in paths if path.suffix not in {*PACKED, ".id"}]
    recent = [(at, path) for at, path in dated if is_put_aside_here(path, log) or now - at < DAY_SECONDS]
    return [path for _, path in sorted(recent)[-MOST_FILES:]]


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _name(descriptor: int) -> str:
    known = os.pread(descriptor, 64, 0)
    if len(known) != 32 or not known.isalnum():  # new, or half-written when the machine failed
        known = uuid4().hex.encode()
        os.ftruncate(descriptor, 0)
        os.write(descriptor, known)
    return known.decode()
