"""Divides the bound of a machine's disk among the parts of its site. PURE.

The site cannot drop its data: they take what they take. A reserve lets them grow between two measurements: Redis
writes its append-only file anew beside the old one, and SQLite moves its write-ahead log into the database. Hot cache,
logs and temporary files have fixed shares of the rest, taken at the start. Mirrored files have what then remains; it
follows the data.
"""

from dataclasses import dataclass

LEAST_BYTES = 256_000_000
"""The smallest bound. Less would leave no room for the largest answers and uploads."""

HOT_SHARE, LOGS_SHARE, TEMPORARY_SHARE = 0.15, 0.05, 0.2
LEAST_DIVIDED = 1 / 8
"""At least this part of the bound is divided: a site whose data fill the bound still starts, and says so."""

FULL_SHARE = 1 / 32
"""With less of the bound left for mirrored files, the disk is full."""

HOT_FOLDERS_SHARE = 1 / 64
"""Of the hot cache: its folders, with the names of many small files. nginx does not count them."""
HOT_BURST_SHARE = 0.25
"""Of the hot cache: what may be added between two looks of nginx' cache manager."""
HOT_BURST_SECONDS = 15
"""The looks are 10 s apart. The rest is for a late one, and for answers that are still being written."""

UPLOADS_AT_A_TIME, UPLOAD_SHARE = 2, 1 / 8
"""Large bodies that a front takes at a time. Each is twice on the disk, by nginx and by main."""
DELIVERIES_SHARE, MAX_DELIVERIES = 1 / 4, 64

TRAFFIC_LOGS = 14
"""A front has up to so many times the size at which its traffic log is put aside: two while it is written, ten that
are not counted yet, and two for the lines that come meanwhile.
"""
FILE_SHARE, STATE_SHARE, REWRITE_SHARE = 1 / 8, 1 / 8, 1 / 64
"""Of the bound: the largest file, the memory of `state`, the size at which its file is written anew."""


@dataclass(frozen=True, slots=True)
class DiskData:
    """The bytes of what the site cannot drop. `wal_bytes` are a part of `database_bytes`."""

    database_bytes: int = 0
    wal_bytes: int = 0
    state_bytes: int = 0
    layers_bytes: int = 0
    other_bytes: int = 0

    @property
    def total_bytes(self) -> int:
        return self.database_bytes + self.state_bytes + self.layers_bytes + self.other_bytes

    def reserve_bytes(self, bound_bytes: int) -> int:
        """The bytes by which the data may grow until they are measured again."""
        return bound_bytes // 32 + self.state_bytes + self.wal_bytes


@dataclass(frozen=True, slots=True)
class DiskShares:
    """The bound, and the fixed shares of its parts, in bytes."""

    bound_bytes: int
    hot_bytes: int
    logs_bytes: int
    temporary_bytes: int

    @property
    def hot_burst_bytes(self) -> int:
        """What main's answers may add to the hot cache in any HOT_BURST_SECONDS."""
        return int(HOT_BURST_SHARE * self._hot_files_bytes)

    @property
    def hot_max_bytes(self) -> int:
        """What nginx' cache manager leaves in the hot cache."""
        return self._hot_files_bytes - self.hot_burst_bytes

    @property
    def _hot_files_bytes(self) -> int:
        return int(self.hot_bytes * (1 - HOT_FOLDERS_SHARE))

    @property
    def traffic_log_bytes(self) -> int:
        return self.logs_bytes // 2 // TRAFFIC_LOGS

    def process_log_bytes(self, files: int) -> int:
        """The largest of so many files of the processes' logs."""
        return self.logs_bytes // 2 // files

    @property
    def upload_max_bytes(self) -> int:
        return int(UPLOAD_SHARE * self.temporary_bytes)

    def count_deliveries(self, delivery_bytes: int) -> int:
        """Counts the deliveries of so many bytes that a front may take at a time."""
        return max(1, min(MAX_DELIVERIES, int(DELIVERIES_SHARE * self.temporary_bytes) // delivery_bytes))

    @property
    def file_max_bytes(self) -> int:
        return int(FILE_SHARE * self.bound_bytes)

    @property
    def state_max_bytes(self) -> int:
        return int(STATE_SHARE * self.bound_bytes)

    @property
    def rewrite_bytes(self) -> int:
        return int(REWRITE_SHARE * self.bound_bytes)

    def files_limit(self, data: DiskData) -> int:
        """Returns the bytes for mirrored files beside these data; below 0 where the data take other shares too."""
        fixed = self.hot_bytes + self.logs_bytes + self.temporary_bytes
        return self.bound_bytes - data.total_bytes - data.reserve_bytes(self.bound_bytes) - fixed

    def is_full(self, data: DiskData) -> bool:
        return self.files_limit(data) < FULL_SHARE * self.bound_bytes


def divide_disk(bound_bytes: int, data: DiskData) -> DiskShares:
    """Divides what these data leave of the bound."""
    left = bound_bytes - data.total_bytes - data.reserve_bytes(bound_bytes)
    divided = max(left, int(LEAST_DIVIDED * bound_bytes))
    shares = (int(share * divided) for share in (HOT_SHARE, LOGS_SHARE, TEMPORARY_SHARE))
    return DiskShares(bound_bytes, *shares)
