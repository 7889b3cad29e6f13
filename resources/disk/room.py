"""Room on this machine's disk, within DISK_MAX_BYTES. Without that setting there is always room.

Each function takes a lock for some microseconds.
"""

from pathlib import Path

from django.conf import settings

from . import meter
from .account import DiskAccount
from .meter import DiskPlaces
from .shares import DiskShares


def disk_shares() -> DiskShares | None:
    """Returns the shares of the parts; None without a bound."""
    shares: DiskShares | None = getattr(settings, "DISK_SHARES", None)
    return shares


def disk_places() -> DiskPlaces:
    places: DiskPlaces = settings.DISK_PLACES
    return places


def open_account() -> DiskAccount | None:
    """Returns the account of this machine; None without a bound."""
    return DiskAccount(Path(settings.DISK_ACCOUNT)) if disk_shares() else None


def take_room(size: int) -> None:
    """Takes room for bytes that are about to be written to a file. Raises NoRoomError, an OSError."""
    if account := open_account():
        account.take_room(size)


def take_storage_room(size: int) -> None:
    """Takes room for a file of the storage; a bucket takes nothing of this disk. Raises NoRoomError."""
    if disk_shares() and disk_places().layers:
        take_room(size)


def add_file(digest: str, size: int, *, has_room: bool) -> None:
    """Adds a mirrored file before it is written. Raises NoRoomError."""
    if account := open_account():
        account.add_file(_shelf_of(digest), size, has_room=has_room)


def subtract_file(digest: str, taken: int) -> None:
    """Subtracts the bytes that a mirrored file took, once it is removed."""
    if account := open_account():
        account.subtract(_shelf_of(digest), taken)


def correct_shelf(shelf: str) -> None:
    """Counts the files of a shelf again."""
    if account := open_account():
        number = int(shelf, 16)
        before = account.read_added(number)
        account.correct(number, meter.count_shelf(disk_places(), number), before)


def find_surplus() -> int:
    """Returns the bytes of mirrored files that should be removed to make room."""
    account = open_account()
    return account.find_surplus() if account else 0


def is_tight() -> bool:
    """Tells whether the room for mirrored files is nearly used up."""
    account = open_account()
    return account is not None and account.is_tight()


def is_full() -> bool:
    """Tells whether the site's data leave no room for anything else."""
    account = open_account()
    return account is not None and account.is_full()


def _shelf_of(digest: str) -> int:
    return int(digest[:2], 16)
