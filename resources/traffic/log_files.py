"""The files of the traffic log: finds, reads and rotates them. Counts nothing.

A file is known by its first line, not by its name or number: it stays the same file when it is renamed or
copied, and is another one when it was emptied and written anew. nginx writes on to a renamed file until it gets
USR1 and reopens its logs. Such a file is read like the others, and removed after a quiet minute. Only
`drop_oldest` loses lines.

Imports nothing of Django: supervisord uses it.
"""

import fcntl
import os
import re
import signal
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

FIRST_LINE_BYTES = 4096
MAX_LOG_FILES = 20
DAY_SECONDS = 86_400
PACKED_SUFFIXES = (".gz", ".bz2", ".xz", ".zst")


@dataclass(frozen=True, slots=True)
class LogFile:
    """An open file with at least one line. `identity` is the digest of its first line."""

    path: Path
    descriptor: int
    identity: str

    def is_still_the_same(self) -> bool:
        return file_identity(self.descriptor) == self.identity


@dataclass(frozen=True, slots=True)
class LogSlice:
    """Whole lines of a file, without the end of the last one, and the position behind them."""

    data: bytes
    end: int


@contextmanager
def hold_log(log: Path) -> Iterator[str | None]:
    """Locks the log against other passes. Yields the log's name, or None if another pass holds it.

    The name is made once, and lies beside the log: each machine has its own.
    """
    with (log.parent / f"{log.name}.id").open("a+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        yield _log_name(file.fileno())


@contextmanager
def open_logs(log: Path, now: float) -> Iterator[list[LogFile]]:
    """Opens the log's files: the oldest first, the one that nginx writes last."""
    with ExitStack() as stack:
        found: list[LogFile] = []
        for path in [*_files_put_aside(log, now), log]:
            try:
                source = stack.enter_context(path.open("rb"))
            except FileNotFoundError:  # it was renamed just now: the next pass has it
                continue
            if known := file_identity(source.fileno()):
                found.append(LogFile(path, source.fileno(), known))
        yield found


def read_slice(file: LogFile, start: int, most_bytes: int) -> LogSlice | None:
    """Reads whole lines from that position on, as far as the bytes reach. None if there is none yet.

    A line longer than `most_bytes` is passed over piece by piece, each piece as a line.
    """
    data = os.pread(file.descriptor, most_bytes, start)
    last = data.rfind(b"\n")
    if last >= 0:
        return LogSlice(data[:last], start + last + 1)
    return LogSlice(data, start + len(data)) if len(data) == most_bytes else None


def file_identity(descriptor: int) -> str:
    """The identity of a file: the digest of its first line; empty while it has no whole line."""
    first, end, _ = os.pread(descriptor, FIRST_LINE_BYTES, 0).partition(b"\n")
    return sha256(first).hexdigest()[:16] if end or len(first) == FIRST_LINE_BYTES else ""


def files_put_aside_here(log: Path) -> list[Path]:
    """The files that our own rotation put aside, the oldest first."""
    found = [path for path in log.parent.glob(f"{log.name}.*") if is_put_aside_here(path, log)]
    return sorted(found, key=lambda path: (_modified_at(path), path))


def is_put_aside_here(path: Path, log: Path) -> bool:
    """Tells whether our own rotation put the file aside: its name has the time in microseconds."""
    return re.fullmatch(re.escape(log.name) + r"\.[0-9]{13,}", path.name) is not None


def _files_put_aside(log: Path, now: float) -> list[Path]:
    """The files put aside, by us or within a day by another program, without compressed ones."""
    paths = [*log.parent.glob(f"{log.name}.*"), *log.parent.glob(f"{log.name}-*")]
    dated = [(_modified_at(path), path) for path in paths if path.suffix not in {*PACKED_SUFFIXES, ".id"}]
    recent = [(at, path) for at, path in dated if is_put_aside_here(path, log) or now - at < DAY_SECONDS]
    return [path for _, path in sorted(recent)[-MAX_LOG_FILES:]]


def _modified_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _log_name(descriptor: int) -> str:
    known = os.pread(descriptor, 64, 0)
    if len(known) != 32 or not known.isalnum():  # new, or half-written when the machine failed
        known = uuid4().hex.encode()
        os.ftruncate(descriptor, 0)
        os.write(descriptor, known)
    return known.decode()


QUIET_SECONDS = 60

MAX_KEPT_LOGS = 10
"""Uncounted files may take so many times the size at which a log is put aside."""


def rotate_log(log: Path, max_bytes: int, nginx_pid_file: Path, now: float) -> bool:
    """Puts the log aside if it is too large. Returns True if nginx was told to open its logs anew.

    nginx is told as well if there is no log, as after an interrupted rotation. Does nothing if nginx does not run here:
    the operator of an nginx elsewhere rotates its log.
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


def remove_counted(path: Path, log: Path, now: float) -> bool:
    """Removes a counted file that our rotation put aside, once it is quiet. Returns True if it was removed."""
    with suppress(FileNotFoundError):
        quiet = now - path.stat().st_mtime > QUIET_SECONDS
        if quiet and log.exists() and is_put_aside_here(path, log):
            path.unlink()
            return True
    return False


def drop_oldest(log: Path, most_bytes: int, counted_bytes: Mapping[str, int]) -> int:
    """Removes the oldest files that our rotation put aside, until the rest takes at most `most_bytes`.

    Returns the number of lost bytes: those not counted. `counted_bytes` has the counted bytes by identity.
    """
    files = files_put_aside_here(log)
    sizes = [_file_size(path) for path in files]
    excess = [path for number, path in enumerate(files) if sum(sizes[number:]) > most_bytes]
    return sum(_drop_file(path, counted_bytes) for path in excess)


def _drop_file(path: Path, counted_bytes: Mapping[str, int]) -> int:
    with suppress(FileNotFoundError), path.open("rb") as file:
        path.unlink()
        return os.fstat(file.fileno()).st_size - counted_bytes.get(file_identity(file.fileno()), 0)
    return 0  # it was counted, and removed


def _file_size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _living_nginx(pid_file: Path) -> int | None:
    """The process id of nginx' master, if it still is nginx: USR1 would end most other processes."""
    try:
        pid = int(pid_file.read_text())
        return pid if Path(f"/proc/{pid}/comm").read_text().strip() == "nginx" else None
    except (OSError, ValueError):
        return None
