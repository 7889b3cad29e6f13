"""Hard links through which nginx serves files of the storage without asking main. Does not remove any bytes.

`served/ab/<digest>.<ending>`, beside the files themselves: whoever shares the storage shares the links. An ending
stands for one media type (STRAIGHT), so that all that is said of a file is known by the name of its link. Files of
other types have none, nor has anything in a bucket.

Main makes a link when it is asked for the file (`offer`), from the file itself, which is whole as soon as it is there.
Then it reads the row once more. Whoever takes the file down or prunes it removes the link (`withdraw`), after the row
says so: one of both sees the other. Where a process is killed in between, a link may stay; the sweeper compares links
with rows. What nginx has seen of links it believes for as long as it would keep an answer of main's.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from django.core.files.storage import FileSystemStorage, default_storage

from ..contents.delivery import STRAIGHT
from ..knowing.models import Blob
from . import remote

FOLDER = "served"


@dataclass(frozen=True, slots=True)
class Link:
    """Something that nginx might serve, by its name."""

    path: Path

    @property
    def digest(self) -> str:
        return self.path.name.partition(".")[0]

    def is_true(self, media_type: str | None, file: Path) -> bool:
        """Whether main would serve that file, and as that type. None: it would serve nothing."""
        if media_type is None or self.path.name != _name(self.digest, media_type):
            return False
        try:
            return self.path.samefile(file)
        except FileNotFoundError:
            return False

    def remove(self) -> None:
        """Raises StorageError."""
        with remote.told():
            self.path.unlink(missing_ok=True)


def offer(blob: Blob, file: Path) -> None:
    """Lets nginx serve this file of a row that was just read. Raises DatabaseError.

    Where there can be no link all stays as it is.
    """
    link = _link(blob)
    if link is None or not _made(link, file):
        return
    is_served = False
    try:
        alike = Blob.objects.filter(digest=blob.digest, media_type=blob.media_type, taken_down_at=None)
        is_served = alike.exists()
    finally:
        if not is_served:  # taken down or removed meanwhile
            link.unlink(missing_ok=True)


def withdraw(digest: str) -> None:
    """nginx serves this file no more. Raises StorageError."""
    if folder := _folder():
        with remote.told():
            for media_type in STRAIGHT:
                with suppress(FileNotFoundError):
                    os.unlink(folder / digest[:2] / _name(digest, media_type))


def of_shelf(shelf: str) -> Iterator[Link]:
    """All links whose digest begins so. Raises StorageError."""
    if folder := _folder():
        with remote.told(), suppress(FileNotFoundError):
            yield from map(Link, sorted((folder / shelf).iterdir()))


def _folder() -> Path | None:
    return Path(default_storage.path(FOLDER)) if isinstance(default_storage, FileSystemStorage) else None


def _link(blob: Blob) -> Path | None:
    folder = _folder()
    if folder is None or blob.media_type not in STRAIGHT:
        return None
    return folder / blob.digest[:2] / _name(blob.digest, blob.media_type)


def _name(digest: str, media_type: str) -> str:
    return f"{digest}.{STRAIGHT.get(media_type, '')}"


def _made(link: Path, file: Path) -> bool:
    """Whether it was made just now."""
    try:
        link.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.link(file, link)
    except OSError:  # another process made it, or removes the file; or there are no links there, or no room
        return False
    return True
