"""The account of the bytes that mirrored files take: a small file that all processes of a machine share.

Bytes are added before they are written, and subtracted after they are removed: a process that is killed in between
leaves the account too high, never too low. The sweeper counts each shelf again, some hours later.

Figures are read without a lock, and changed under one. A process that is stopped while it has the lock stops no other:
those fail after a second.

Room for growing files (bodies that are fetched, files of layers) is pending until a measurement has surely seen them:
through one whole interval between two measurements.
"""

import errno
import fcntl
import os
import time
from array import array
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SHELF_COUNT = 256
BLOCK_BYTES = 4096
HIGH_MARK, LOW_MARK = 0.9, 0.8
"""Above the first share of the limit mirrored files are removed, down to the second."""
TIGHT_MARK = 0.95
"""Above it no more files are fetched that no client waits for."""

LOCK_SECONDS, LOCK_PAUSE_SECONDS = 1.0, 0.005

_MARK = 0x5461727279_01
_MARKED, _LIMIT, _IS_FULL, _SPOOLED, _PENDING, _EARLIER = range(6)
_KEPT, _ADDED = 6, 6 + SHELF_COUNT
_LENGTH = _ADDED + SHELF_COUNT
_BYTES = 8 * _LENGTH


class NoRoomError(OSError):
    """The bound of the disk has no room for these bytes."""

    def __init__(self) -> None:
        super().__init__(errno.EDQUOT, "no room is left within DISK_MAX_BYTES")


def disk_bytes(size: int) -> int:
    """Returns the bytes of a file of that size: whole blocks, and one for the folder that it may need."""
    return (size + BLOCK_BYTES - 1) // BLOCK_BYTES * BLOCK_BYTES + BLOCK_BYTES


class DiskAccount:
    """The account in this file. While there is none, nothing is bounded."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def open_new(self, shelves: list[int]) -> None:
        """Writes a new account with these bytes by shelf."""
        figures = array("q", [0] * _LENGTH)
        figures[_MARKED] = _MARK
        figures[_KEPT : _KEPT + SHELF_COUNT] = array("q", shelves)
        new = self._path.with_name(f"{self._path.name}.new")
        new.write_bytes(figures.tobytes())
        new.replace(self._path)

    def is_there(self) -> bool:
        return self._read() is not None

    def take_room(self, size: int) -> None:
        """Takes room for bytes that are about to be written to a file. Raises NoRoomError."""
        with self._held() as figures:
            if figures is not None:
                _require_room(figures, size)
                figures[_PENDING] += size

    def add_file(self, shelf: int, size: int, *, has_room: bool) -> None:
        """Adds a file. Its bytes are on the disk if it `has_room`: it gets a second name. Raises NoRoomError."""
        with self._held() as figures:
            if figures is not None:
                taken = disk_bytes(size)
                if not has_room:
                    _require_room(figures, taken)
                figures[_KEPT + shelf] += taken
                figures[_ADDED + shelf] += taken

    def subtract(self, shelf: int, taken: int) -> None:
        """Subtracts what a removed file took. If that cannot be noted now, the sweeper does it."""
        with suppress(BlockingIOError), self._held() as figures:
            if figures is not None:
                figures[_KEPT + shelf] = max(0, figures[_KEPT + shelf] - taken)

    def read_added(self, shelf: int) -> int:
        """Returns the bytes ever added to the shelf, for `correct`."""
        figures = self._read()
        return 0 if figures is None else figures[_ADDED + shelf]

    def correct(self, shelf: int, counted: int, added_before: int) -> None:
        """Sets the shelf's bytes, counted after `added_before` was read. What was added since counts too."""
        with self._held() as figures:
            if figures is not None:
                figures[_KEPT + shelf] = counted + figures[_ADDED + shelf] - added_before

    def set_limit(self, limit: int, spooled: int, *, is_full: bool) -> None:
        """Sets the limit of mirrored files after a measurement, and forgets room taken before the last but one."""
        with self._held() as figures:
            if figures is not None:
                figures[_LIMIT], figures[_SPOOLED], figures[_IS_FULL] = limit, spooled, int(is_full)
                figures[_EARLIER], figures[_PENDING] = figures[_PENDING], 0

    def read_files(self) -> int:
        """Returns the bytes of mirrored files."""
        figures = self._read()
        return 0 if figures is None else _count_kept(figures)

    def find_surplus(self) -> int:
        """Returns the bytes of mirrored files that should be removed to make room."""
        figures = self._read()
        if figures is None or _count_used(figures) <= HIGH_MARK * figures[_LIMIT]:
            return 0
        return min(_count_kept(figures), int(_count_used(figures) - LOW_MARK * max(0, figures[_LIMIT])))

    def is_tight(self) -> bool:
        figures = self._read()
        return figures is not None and _count_used(figures) > TIGHT_MARK * figures[_LIMIT]

    def is_full(self) -> bool:
        """Tells whether the site's data leave no room for anything else."""
        figures = self._read()
        return figures is not None and bool(figures[_IS_FULL])

    def _read(self) -> "array[int] | None":
        """Returns the figures; None if there is no whole account."""
        try:
            return _parse_figures(self._path.read_bytes())
        except FileNotFoundError:
            return None

    @contextmanager
    def _held(self) -> Iterator["array[int] | None"]:
        """Locks the account and yields its figures, which are then written; None if there is no whole account.

        Raises BlockingIOError if another process keeps the lock.
        """
        try:
            descriptor = os.open(self._path, os.O_RDWR)
        except FileNotFoundError:
            yield None
            return
        try:
            _lock(descriptor)
            figures = _parse_figures(os.pread(descriptor, _BYTES + 1, 0))
            yield figures
            if figures is not None:
                os.pwrite(descriptor, figures.tobytes(), 0)
        finally:
            os.close(descriptor)  # releases the lock, too


def _lock(descriptor: int) -> None:
    """Raises BlockingIOError."""
    until = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise
            time.sleep(LOCK_PAUSE_SECONDS)
        else:
            return


def _parse_figures(data: bytes) -> "array[int] | None":
    if len(data) != _BYTES:
        return None
    figures = array("q", data)
    return figures if figures[_MARKED] == _MARK else None


def _count_kept(figures: "array[int]") -> int:
    return sum(figures[_KEPT : _KEPT + SHELF_COUNT])


def _count_used(figures: "array[int]") -> int:
    return _count_kept(figures) + figures[_SPOOLED] + figures[_PENDING] + figures[_EARLIER]


def _require_room(figures: "array[int]", size: int) -> None:
    if _count_used(figures) + size > figures[_LIMIT]:
        raise NoRoomError
