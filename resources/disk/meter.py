"""Measures what the parts of a site take of a machine's disk, in blocks, as `du` does.

Quick parts are few files, and are measured each time. Slow parts are whole trees, measured once a minute: the hot
cache, and all else in DATA_DIR. Mirrored files are never walked through but for a new account: the account has them.
"""

import math
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from .account import SHELF_COUNT, DiskAccount
from .shares import DiskData, DiskShares

SLOW_SECONDS = 60.0
_JOURNALS = ("-shm", "-journal")


@dataclass(frozen=True, slots=True)
class DiskPlaces:
    """The places of the parts. `files` is the folder of mirrored files, `served` that of their links."""

    data: Path
    runtime: Path
    database: Path | None
    state: Path
    layers: Path | None
    files: Path
    served: Path | None
    hot: Path
    logs: Path
    spool: Path
    uploads: Path
    requests: tuple[Path, ...] = ()
    """nginx' folders of request bodies and of answers to slow clients."""

    def to_json(self) -> dict[str, object]:
        named = {name: getattr(self, name) for name in self.__slots__ if name != "requests"}
        texts: dict[str, object] = {name: str(path) for name, path in named.items() if path}
        return {**texts, "requests": [str(path) for path in self.requests]}

    @classmethod
    def from_json(cls, given: Mapping[str, object]) -> "DiskPlaces":
        optional: dict[str, Path | None] = dict.fromkeys(("database", "layers", "served"))
        named = {name: Path(path) for name, path in given.items() if isinstance(path, str)}
        requests = given["requests"]
        assert isinstance(requests, list)
        return cls(**{**optional, **named}, requests=tuple(map(Path, requests)))  # type: ignore[arg-type]

    @property
    def known(self) -> frozenset[str]:
        """The paths of the parts: all else in DATA_DIR and RUNTIME_DIR is other data."""
        folders = (self.state, self.layers, self.files, self.served, self.hot, self.logs, self.spool, self.uploads)
        return frozenset(str(path) for path in (*folders, *self.requests, *self.database_files) if path)

    @property
    def database_files(self) -> tuple[Path, ...]:
        if self.database is None:
            return ()
        return tuple(self.database.with_name(self.database.name + ending) for ending in ("", "-wal", *_JOURNALS))


@dataclass(frozen=True, slots=True)
class DiskUse:
    """The bytes of each part, and the bound of all together. `files_limit` is that of mirrored files."""

    bound_bytes: int
    parts: Mapping[str, int]
    files_limit: int
    is_full: bool

    @property
    def total_bytes(self) -> int:
        return sum(self.parts.values())

    @property
    def is_above(self) -> bool:
        return self.total_bytes > self.bound_bytes

    def to_facts(self) -> dict[str, object]:
        """The facts of a machine's record."""
        return {"disk_max_bytes": self.bound_bytes, "disk_parts": dict(self.parts), "disk_trouble": self.trouble}

    @property
    def trouble(self) -> str:
        """Clauses for the operator; empty if all is well."""
        found = []
        if self.is_above:
            found.append(f"its site takes {self.total_bytes:,} bytes of the disk, more than DISK_MAX_BYTES")
        if self.is_full:
            data = sum(self.parts[name] for name in DATA_PARTS)
            found.append(f"its data take {data:,} bytes: DISK_MAX_BYTES leaves no room for new files")
        return "; ".join(found)


DATA_PARTS = ("database", "state", "layers", "other")


class DiskMeter:
    """Measures the parts again and again, and sets the limit of mirrored files in the account."""

    def __init__(self, places: DiskPlaces, shares: DiskShares, account: DiskAccount) -> None:
        self._places = places
        self._shares = shares
        self._account = account
        self._slow_at = -math.inf
        self._hot = self._other = 0

    def measure(self, now_seconds: float) -> DiskUse:
        """Measures the parts. `now_seconds` is monotonic. Raises OSError."""
        places = self._places
        if now_seconds >= self._slow_at + SLOW_SECONDS:
            self._slow_at = now_seconds
            self._hot, self._other = count_tree(places.hot), count_other(places)
        data = replace(measure_data(places, with_other=False), other_bytes=self._other)
        spooled = count_spooled(places.spool)
        limit, is_full = self._shares.files_limit(data), self._shares.is_full(data)
        self._account.set_limit(limit, spooled, is_full=is_full)
        parts = {
            "database": data.database_bytes,
            "state": data.state_bytes,
            "layers": data.layers_bytes,
            "other": data.other_bytes,
            "files": self._account.read_files(),
            "hot": self._hot,
            "logs": count_tree(places.logs),
            "temporary": spooled + sum(map(count_tree, (places.uploads, *places.requests))),
        }
        return DiskUse(self._shares.bound_bytes, parts, limit, is_full)


def measure_data(places: DiskPlaces, *, with_other: bool = True) -> DiskData:
    """Measures what the site cannot drop."""
    sizes = [count_file(path) for path in places.database_files]
    return DiskData(
        database_bytes=sum(sizes),
        wal_bytes=sizes[1] if sizes else 0,
        state_bytes=count_tree(places.state),
        layers_bytes=count_tree(places.layers) if places.layers else 0,
        other_bytes=count_other(places) if with_other else 0,
    )


def count_shelves(places: DiskPlaces) -> list[int]:
    """Counts the mirrored files of all shelves. Takes some seconds for a million."""
    return [count_shelf(places, shelf) for shelf in range(SHELF_COUNT)]


def count_shelf(places: DiskPlaces, shelf: int) -> int:
    """Counts the files of a shelf with their folders, and the folder of its links, which take no bytes of their own."""
    links = count_file(places.served / f"{shelf:02x}") if places.served else 0
    return links + count_tree(places.files / f"{shelf:02x}")


def count_other(places: DiskPlaces) -> int:
    """Counts all that is no known part, in DATA_DIR and RUNTIME_DIR."""
    roots = [places.data] if places.runtime.is_relative_to(places.data) else [places.data, places.runtime]
    return sum(count_tree(root, places.known) for root in roots)


def count_spooled(spool: Path) -> int:
    """Counts the bodies that are being fetched. Those with a second name are mirrored files already."""
    return sum(one.st_blocks * 512 for one in _list_states(spool, frozenset()) if one.st_nlink == 1)


def count_tree(root: Path, without: frozenset[str] = frozenset()) -> int:
    """Counts the bytes of a file or of a tree, links but once, without some paths. What vanishes meanwhile counts 0."""
    seen: set[tuple[int, int]] = set()
    total = count_file(root)
    for state in _list_states(root, without):
        if state.st_nlink > 1 and not stat.S_ISDIR(state.st_mode):
            if (state.st_dev, state.st_ino) in seen:
                continue
            seen.add((state.st_dev, state.st_ino))
        total += state.st_blocks * 512
    return total


def count_file(path: Path) -> int:
    """Counts the bytes of a file, or of a folder alone; 0 if there is none."""
    with suppress(OSError):
        return path.lstat().st_blocks * 512
    return 0


def _list_states(root: Path, without: frozenset[str]) -> Iterator[os.stat_result]:
    left: list[str] = [str(root)]
    while left:
        for entry in _list_folder(left.pop()):
            if entry.path not in without:
                with suppress(OSError):
                    yield entry.stat(follow_symlinks=False)
                    if entry.is_dir(follow_symlinks=False):
                        left.append(entry.path)


def _list_folder(folder: str) -> Iterable[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:  # it is no folder, or is gone
        return ()
