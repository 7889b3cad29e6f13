"""The storage where it is no file system: what a bucket can do, and any other storage of Django's in its place.

Errors are StorageError, but for an object that is not there (FileNotFoundError). Reads and writes no row.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import Any

from django.core.files.base import File
from django.core.files.storage import default_storage

from resources import storages

from ..errors import StorageError

LINK_SECONDS = 300
"""How long a signed link is good for. Whoever has begun to download may go on."""
CHUNK_BYTES = 65_536


def signed_link(name: str, content_type: str, disposition: str) -> str | None:
    """A link that the storage itself answers, with these fields; None for a storage that has none."""
    if not hasattr(default_storage, "signed_link"):
        return None
    with told():
        link: str = default_storage.signed_link(name, content_type, disposition, LINK_SECONDS)
    return link


def stream(name: str, start: int, end: int) -> Iterator[bytes]:
    """The bytes from `start` to before `end`, piece by piece."""
    with told():
        if hasattr(default_storage, "stream"):
            yield from default_storage.stream(name, start, end)
            return
        with default_storage.open(name) as file:
            yield from pieces(file, start, end)


def pieces(file: Any, start: int, end: int) -> Iterator[bytes]:
    """The same of an open file."""
    file.seek(start)
    while start < end and (data := file.read(min(CHUNK_BYTES, end - start))):
        start += len(data)
        yield data


def upload(path: Path, name: str, media_type: str) -> None:
    """Puts a file under that name, in the place of what may be there. It is there when this returns."""
    with told(), path.open("rb") as source:
        file = File(source)
        file.content_type = media_type  # type: ignore[attr-defined]  # what a bucket tells its own clients
        if not hasattr(default_storage, "signed_link"):
            default_storage.delete(name)  # else it would be saved beside it, under another name
        default_storage.save(name, file)


def delete(name: str) -> None:
    """It is gone afterwards, whether it was there or not."""
    with told():
        default_storage.delete(name)


def listed(beginning: str) -> Iterator[tuple[str, datetime]]:
    """Names of one folder that begin so, and when each was written. Ends at once for a storage that cannot say."""
    if hasattr(default_storage, "listed"):
        with told():
            yield from default_storage.listed(beginning)


def can_list() -> bool:
    return hasattr(default_storage, "listed")


def told() -> AbstractContextManager[None]:
    """Times what the storage does, and turns its errors into StorageError, but for a file that is not there."""
    return storages.asked(_failure)


def _failure(error: Exception) -> StorageError:
    if isinstance(error, OSError):
        return StorageError(f"The file could not be stored or read: {error.strerror or error}.")
    return StorageError(f"The storage answered: {error}.")
