"""The bytes of blobs by digest: files of this machine, objects of the storage, and hard links for nginx.

Writes no row. Bytes are written before the rows that name them, and removed after them. Errors of the storage are
StorageError, but FileNotFoundError for a missing object.

Links: `served/ab/<digest>.<ending>`, beside the files themselves, so that machines that share the storage share
the links. nginx serves files through them without asking main. An ending stands for one media type
(DIRECT_ENDINGS), so that the name of a link gives all header fields of its file. Files of other types have no
link, and neither have objects in a bucket.

Main makes a link when the file is requested (`offer_link`), from the file itself, which is whole as soon as it is
there. Then it reads the row once more. A takedown or pruning removes the link (`withdraw_links`) after it has
changed the row: one of the two sees the other. If a process is killed in between, a link may stay; the sweeper
compares links with rows. nginx trusts its knowledge of a link for as long as it would keep an answer of main.
"""

import errno
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, Any
from uuid import uuid4

from django.conf import settings
from django.core.files.base import File
from django.core.files.storage import FileSystemStorage, default_storage

from resources import database
from resources.disk import account, room

from ..errors import StorageError
from ..models import Blob
from ..public_files import DIRECT_ENDINGS

LINK_SECONDS = 300
"""The time for which a signed link is valid. A download that has begun may go on."""
CHUNK_BYTES = 65_536


def bucket_link(name: str, content_type: str, disposition: str) -> str | None:
    """Returns a link that the storage itself answers, with these fields; None for a storage without links."""
    if not hasattr(default_storage, "signed_link"):
        return None
    with translate_storage_errors():
        return str(default_storage.signed_link(name, content_type, disposition, LINK_SECONDS))


def has_links() -> bool:
    """Tells whether the storage has links of its own for its objects."""
    return hasattr(default_storage, "signed_link")


def stream_object(name: str, start: int, end: int) -> Iterator[bytes]:
    """Yields the bytes from `start` to before `end`, piece by piece."""
    with translate_storage_errors():
        if hasattr(default_storage, "stream"):
            yield from default_storage.stream(name, start, end)
            return
        with default_storage.open(name) as file:
            yield from read_pieces(file, start, end)


def read_pieces(file: Any, start: int, end: int) -> Iterator[bytes]:
    """Yields the bytes of an open file from `start` to before `end`, piece by piece."""
    file.seek(start)
    while start < end and (data := file.read(min(CHUNK_BYTES, end - start))):
        start += len(data)
        yield data


def upload_object(path: Path, name: str, media_type: str) -> None:
    """Puts a file under that name, in the place of any other. It is there when this returns."""
    with translate_storage_errors(), path.open("rb") as source:
        file = File(source)
        file.content_type = media_type  # type: ignore[attr-defined]  # the type that a bucket tells its own clients
        if not hasattr(default_storage, "signed_link"):
            default_storage.delete(name)  # else it would be saved beside it, under another name
        default_storage.save(name, file)


def delete_object(name: str) -> None:
    """Deletes an object, if there is one."""
    with translate_storage_errors():
        default_storage.delete(name)


def list_objects(beginning: str) -> Iterator[tuple[str, datetime]]:
    """Yields the names with this beginning, and when each was written. Yields none for a storage that cannot list."""
    if hasattr(default_storage, "listed"):
        with translate_storage_errors():
            yield from default_storage.listed(beginning)


def can_list_objects() -> bool:
    return hasattr(default_storage, "listed")


def translate_storage_errors() -> AbstractContextManager[None]:
    """Times a call of the storage, and turns its errors into StorageError, but not that of a missing file."""
    return database.storage_call(to_storage_error)


def to_storage_error(error: Exception) -> StorageError:
    """Returns the error that stands for one of the storage."""
    if isinstance(error, OSError):
        return StorageError(f"The file could not be stored or read: {error.strerror or error}.")
    return StorageError(f"The storage answered: {error}.")


LINK_FOLDER = "served"


@dataclass(frozen=True, slots=True)
class ServedLink:
    """A file that nginx might serve, by the name of its link."""

    path: Path

    @property
    def digest(self) -> str:
        return self.path.name.partition(".")[0]

    def is_true(self, media_type: str | None, file: Path) -> bool:
        """True if main would serve that file, and as that type. None: main would serve nothing."""
        if media_type is None or self.path.name != _link_name(self.digest, media_type):
            return False
        try:
            return self.path.samefile(file)
        except FileNotFoundError:
            return False

    def remove(self) -> None:
        """Removes the link. Raises StorageError."""
        with translate_storage_errors():
            self.path.unlink(missing_ok=True)


def offer_link(blob: Blob, file: Path) -> None:
    """Lets nginx serve this file of a row that was just read, where there can be a link. Raises DatabaseError."""
    link = _link_path(blob)
    if link is None or not _make_link(link, file):
        return
    is_served = False
    try:
        alike = Blob.objects.filter(digest=blob.digest, media_type=blob.media_type, taken_down_at=None)
        is_served = alike.exists()
    finally:
        if not is_served:  # taken down or removed meanwhile
            link.unlink(missing_ok=True)


def withdraw_links(digest: str) -> None:
    """Removes the links of a file, so that nginx no longer serves it. Raises StorageError."""
    if folder := _link_folder():
        with translate_storage_errors():
            for media_type in DIRECT_ENDINGS:
                with suppress(FileNotFoundError):
                    os.unlink(folder / digest[:2] / _link_name(digest, media_type))


def list_shelf_links(shelf: str) -> Iterator[ServedLink]:
    """Yields all links whose digest begins with the shelf's digits. Raises StorageError."""
    if folder := _link_folder():
        with translate_storage_errors(), suppress(FileNotFoundError):
            yield from map(ServedLink, sorted((folder / shelf).iterdir()))


def _link_folder() -> Path | None:
    return Path(default_storage.path(LINK_FOLDER)) if isinstance(default_storage, FileSystemStorage) else None


def _link_path(blob: Blob) -> Path | None:
    folder = _link_folder()
    if folder is None or blob.media_type not in DIRECT_ENDINGS:
        return None
    return folder / blob.digest[:2] / _link_name(blob.digest, blob.media_type)


def _link_name(digest: str, media_type: str) -> str:
    return f"{digest}.{DIRECT_ENDINGS.get(media_type, '')}"


def _make_link(link: Path, file: Path) -> bool:
    """True if the link was made just now."""
    try:
        link.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.link(file, link)
    except OSError:  # another process made it, or removes the file; or the file system has no links, or no room
        return False
    return True


BLOB_FOLDER = "mirror"
NEW_PREFIX, ASIDE_SUFFIX = ".new-", ".aside"
NO_LINK_ERRNOS = frozenset({errno.EXDEV, errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK})
"""Errors of file systems that cannot give this file a second name there."""


def blob_name(digest: str) -> str:
    """Returns the name of a blob in the storage. Does not look whether it is there."""
    return f"{BLOB_FOLDER}/{digest[:2]}/{digest[2:4]}/{digest}"


def is_storage_remote() -> bool:
    """True if the storage is no file system: then bytes are held on this machine until they are uploaded."""
    return not isinstance(default_storage, FileSystemStorage)


def local_blob_folder() -> Path:
    """Returns the folder of this machine's files: those of the storage itself, or those not uploaded yet."""
    if is_storage_remote():
        return Path(settings.MIRROR_HELD_DIRECTORY)
    return Path(default_storage.path(BLOB_FOLDER))


def local_path(digest: str) -> Path:
    """Returns the path of the bytes if they are on this machine."""
    return local_blob_folder() / digest[:2] / digest[2:4] / digest


def keep_blob(source: Path | bytes, digest: str) -> str:
    """Keeps bytes of that digest for good, once for all calls; returns their name in the storage.

    The bytes are on the disk when this returns. A source file stays with the caller. Raises StorageError.
    """
    target = local_path(digest)
    with translate_storage_errors():
        if not _renew_mtime(target):
            _place_with_room(source, target)
        sync_to_disk(target.parent)  # also a file of another process, which may not have synced yet
    return blob_name(digest)


def open_blob(blob: Blob) -> IO[bytes]:
    """Opens the bytes of a blob, here or in the storage. Raises FileNotFoundError or StorageError."""
    with translate_storage_errors():
        try:
            return local_path(blob.digest).open("rb")
        except FileNotFoundError:
            if not is_storage_remote() or blob.uploaded_at is None:
                raise
        found: IO[bytes] = default_storage.open(blob.name)
        return found


def remove_blob(blob: Blob, *, kept_before: float | None = None) -> None:
    """Removes the bytes here and in the storage. Its row is gone by then, or says that it was taken down.

    Bytes that were kept again after `kept_before` (Unix seconds; default: now) stay here. Raises StorageError.
    """
    remove_local_blob(blob.digest, kept_before=kept_before)
    if is_storage_remote():
        delete_object(blob_name(blob.digest))


def remove_local_blob(digest: str, *, kept_before: float | None = None) -> bool:
    """Removes this machine's file unless it was kept again meanwhile. True if it is gone. Raises StorageError.

    nginx no longer serves it in any case: its links go last, when there is no file to make one of.
    """
    try:
        return _remove_local_file(digest, kept_before)
    finally:
        withdraw_links(digest)


def _remove_local_file(digest: str, kept_before: float | None) -> bool:
    """Puts the file aside before reading its age: a process that then keeps the same bytes writes them again."""
    target = local_path(digest)
    # A unique name: other processes may remove the file at the same time.
    aside = target.with_name(f"{digest}.{uuid4().hex}{ASIDE_SUFFIX}")
    before = time.time() if kept_before is None else kept_before
    with translate_storage_errors():
        try:
            target.rename(aside)
            was_kept_again = aside.stat().st_mtime > before
            if was_kept_again:
                with suppress(FileExistsError):
                    os.link(aside, target)
            taken = aside.stat().st_blocks * 512
            aside.unlink()
            if not was_kept_again:
                room.subtract_file(digest, taken)
        except FileNotFoundError:  # another process removes it too
            return True
    return not was_kept_again


def _renew_mtime(target: Path) -> bool:
    """True if the file is there. It counts as new then, so that no process takes it for a leftover."""
    now = time.time_ns()  # the kernel's own stamp would be some milliseconds old
    try:
        os.utime(target, ns=(now, now))
    except FileNotFoundError:
        return False
    return True


def _make_folder(folder: Path) -> None:
    """Makes the folder, so that it survives a failure of the machine."""
    made = []
    while not folder.is_dir():
        made.append(folder)
        folder = folder.parent
    for each in reversed(made):
        with suppress(FileExistsError):  # another process makes it too
            each.mkdir(mode=0o700)
        sync_to_disk(each.parent)


def _place_with_room(source: Path | bytes, target: Path) -> None:
    """Places a file. A fetched body took its room when it was written. Raises NoRoomError."""
    size = source.stat().st_size if isinstance(source, Path) else len(source)
    room.add_file(target.name, size, has_room=isinstance(source, Path))
    try:
        _make_folder(target.parent)
        _place_file(source, target)
    except BaseException:
        room.subtract_file(target.name, account.disk_bytes(size))
        raise


def _place_file(source: Path | bytes, target: Path) -> None:
    """Places a file: under its name it appears whole and written to the disk, or not at all."""
    if isinstance(source, Path):
        _renew_mtime(source)
        sync_to_disk(source)
        try:
            os.link(source, target)
        except FileExistsError:  # another process kept the same bytes just now
            return
        except OSError as error:
            if error.errno not in NO_LINK_ERRNOS:
                raise
        else:
            return
    with NamedTemporaryFile(prefix=NEW_PREFIX, dir=target.parent, delete=False) as new:
        try:
            _write_bytes(source, new)
            _renew_mtime(Path(new.name))
            os.replace(new.name, target)
        except BaseException:
            os.unlink(new.name)
            raise


def _write_bytes(source: Path | bytes, new: IO[bytes]) -> None:
    if isinstance(source, Path):
        with source.open("rb") as file:
            shutil.copyfileobj(file, new, 1024 * 1024)
    else:
        new.write(source)
    new.flush()
    os.fsync(new.fileno())


def sync_to_disk(path: Path | str) -> None:
    """Waits until a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
