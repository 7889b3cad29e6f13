"""Where the bytes of a blob can be had: here, in the storage, or on the machine that will upload them."""

from dataclasses import dataclass
from pathlib import Path

from .. import conf
from ..knowing.models import Blob
from . import blobs


@dataclass(frozen=True, slots=True)
class Here:
    """In a file of this machine."""

    path: Path


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
    if path.is_file():
        return Here(path)
    if blobs.is_elsewhere() and blob.uploaded_at is not None:
        return Stored(blob.name)
    if blobs.is_elsewhere() and blob.holder != conf.machine():
        return Held(blob.holder)
    return Lost()
