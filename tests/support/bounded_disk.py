"""A bounded disk for unit tests: an account with room for so many bytes of mirrored files."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from django.core.files.storage import default_storage

from project.paths import DataDirectory, RuntimeDirectory
from project.settings import DISK_PLACES
from resources.disk.account import SHELF_COUNT, DiskAccount
from resources.disk.shares import LEAST_BYTES, DiskData, divide_disk


def bound_disk(settings: Any, root: Path, room: int, *, is_full: bool = False) -> DiskAccount:
    """Bounds the disk of the test's storage. `root` is a folder of the test's own."""
    data, runtime = DataDirectory(root), RuntimeDirectory(root / "run")
    folder = Path(default_storage.path(""))
    places: dict[str, Any] = {"data": data.root, "runtime": runtime.root, "layers": folder / "layers"}
    files: dict[str, Any] = {"files": folder / "mirror", "served": folder / "served"}
    settings.DISK_PLACES = replace(DISK_PLACES, **places, **files)
    settings.DISK_ACCOUNT = data.disk_account
    settings.DISK_SHARES = divide_disk(LEAST_BYTES, DiskData())
    account = DiskAccount(data.disk_account)
    account.open_new([0] * SHELF_COUNT)
    account.set_limit(room, 0, is_full=is_full)
    return account
