"""Where the bytes of a blob can be had: here, in the storage, or on the machine that will upload them."""

import stat
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from .. import conf
from ..knowing.models import Blob
from . import blobs


@dataclass(frozen=True, slots=True)
class Here:
    """In a file of this machine. `modified`: when it was stored, as whoever serves it says."""

    path: Path
    modified: datetime


@dataclass(frozen=True, slots=True)
class Stored:
    """In the storage, under that name."""

    name: str


@dataclass(frozen=True, slots=True)
class Held:
    """On another machine, until that uploads it."""

    holder: str


@dataclass(frozen=True, slots=True)
class Lost:
    """Where its row says that it is, it is not."""


Place = Here | Stored | Held | Lost


def whereabouts(blob: Blob) -> Place:
    """Where the bytes can be had. The row is believed but for the file on this machine, which is looked at."""
    path = blobs.path_of(blob.digest)
    if modified := _modified(path):
        return Here(path, blob.stored_at if blobs.is_elsewhere() else modified)
    if blobs.is_elsewhere() and blob.uploaded_at is not None:
        return Stored(blob.name)
    if blobs.is_elsewhere() and blob.holder != conf.machine():
        return Held(blob.holder)
    return Lost()


def _modified(path: Path) -> datetime | None:
    """The time of the file, which is all that nginx knows of it; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return datetime.fromtimestamp(found.st_mtime, UTC) if stat.S_ISREG(found.st_mode) else None
