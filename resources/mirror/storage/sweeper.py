"""The sweeper: finds bytes without a row, rows without bytes, and links without either. Takes a shelf at a time.

A shelf holds the blobs whose digests begin with the same two digits. There are 256, one a minute, so that a round
takes about four hours. Bytes younger than an hour are left alone: their row may be about to be written.
"""

import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from django.conf import settings
from django.core.files.storage import default_storage
from django.db.models import Exists, OuterRef

from resources import database

from ..errors import StorageError
from ..models import Blob, Resource, UrlState
from ..public_files import DIGEST_PATTERN
from . import blobs, retention, takedown
from .blobs import ServedLink

SHELF_COUNT = 256
YOUNG_AGE = timedelta(hours=1)
MAX_LOST, MAX_LOST_SHARE = 3, 0.1
"""If more of a shelf is gone, the storage itself is gone: an operator has to look."""

_log = logging.getLogger("tarry.mirroring")


@dataclass(frozen=True, slots=True)
class FoundBytes:
    """Bytes under the name of a digest, and the time (Unix seconds) when they were last written or kept again."""

    digest: str
    at: float

    def is_old(self, now: datetime) -> bool:
        return self.at < (now - YOUNG_AGE).timestamp()


def shelf_at(now: datetime) -> str:
    """Returns the shelf whose turn it is in this minute."""
    return f"{int(now.timestamp()) // 60 % SHELF_COUNT:02x}"


def sweep_shelf(shelf: str, now: datetime) -> None:
    """Compares one shelf of the storage with the rows. Raises DatabaseError, and StorageError at the end."""
    _find_dangling(shelf, now)
    _remove_false_links(shelf)  # first, because a broken file may stop the rest: nginx serves by them
    if blobs.is_storage_remote():
        if not blobs.can_list_objects():
            return
        found = list(_storage_objects(shelf))
    else:
        found = list(_local_files(shelf, now))
    _find_lost(shelf, {one.digest for one in found}, now)
    _remove_orphans(found, now)


def sweep_held_blobs(now: datetime) -> None:
    """Removes files of this machine that were uploaded a while ago, were taken down, or have no row.

    Raises DatabaseError and StorageError.
    """
    for number in range(SHELF_COUNT):
        for some in database.split_portions(_local_files(f"{number:02x}", now)):
            _sweep_held_batch(some, now)


def _sweep_held_batch(found: Sequence[FoundBytes], now: datetime) -> None:
    rows, grace = _blob_rows(found), timedelta(seconds=settings.MIRROR_GRACE_SECONDS)
    for one in found:
        row = rows.get(one.digest)
        if row is None:
            done = one.is_old(now)
        else:  # another process may have read the row just before the upload
            is_past = row.uploaded_at is not None and row.uploaded_at < now - grace
            done = row.taken_down_at is not None or is_past
        if done:
            blobs.remove_local_blob(one.digest, kept_before=one.at)


def _remove_orphans(found: Sequence[FoundBytes], now: datetime) -> None:
    for some in database.split_portions(found):
        rows = _blob_rows(some)
        for one in some:
            row = rows.get(one.digest)
            if row is None and one.is_old(now):
                _log.warning("bytes without a row were removed", extra={"digest": one.digest})
                _remove_orphan(one)
            elif row is not None and row.taken_down_at is not None:
                blobs.remove_blob(row)


def _remove_orphan(one: FoundBytes) -> None:
    if not blobs.is_storage_remote():
        blobs.remove_local_blob(one.digest, kept_before=one.at)
        return
    blobs.delete_object(blobs.blob_name(one.digest))
    # Its row may have been written, and the bytes uploaded, just before: they are held here, and are uploaded again.
    Blob.objects.filter(digest=one.digest).update(uploaded_at=None)


def _remove_false_links(shelf: str) -> None:
    """Removes links by which nginx would serve other than main does: leftovers of killed processes."""
    for some in database.split_portions(list(blobs.list_shelf_links(shelf))):
        known = Blob.objects.filter(digest__in=[one.digest for one in some], taken_down_at=None)
        types = dict(known.values_list("digest", "media_type"))
        for one in some:
            if not one.is_true(types.get(one.digest), blobs.local_path(one.digest)):
                _remove_link(one)


def _remove_link(link: ServedLink) -> None:
    """Removes a link. Leaves it if that fails: there are others."""
    try:
        link.remove()
    except StorageError as error:
        _log.error("a link was not removed: nginx may serve it", extra={"link": link.path.name, "error": str(error)})
    else:
        _log.warning("a link to a file was removed", extra={"link": link.path.name})


def _find_lost(shelf: str, there: set[str], now: datetime) -> None:
    """Finds rows whose bytes are not in the storage, and gives them up."""
    beginning, end = _shelf_bounds(shelf)
    rows = Blob.objects.filter(digest__gte=beginning, digest__lt=end, taken_down_at=None, stored_at__lt=now - YOUNG_AGE)
    if blobs.is_storage_remote():
        rows = rows.filter(uploaded_at__lt=now - YOUNG_AGE)
    digests = list(rows.order_by("digest").values_list("digest", flat=True))
    lost = [digest for digest in digests if digest not in there and not _is_in_storage(digest)]
    if len(lost) > max(MAX_LOST, MAX_LOST_SHARE * len(digests)):
        extra = {"shelf": shelf, "lost": len(lost), "of": len(digests)}
        _log.error("much of the storage is not there: nothing is done about it", extra=extra)
    elif lost:
        urls = retention.lose_blobs(lost, now)
        _log.error("bytes are gone: their URLs are wanted again", extra={"digests": lost, "urls": urls})


def _find_dangling(shelf: str, now: datetime) -> None:
    """Finds resources whose blob has no row, or was taken down while they were written, or not for all of them.

    Takes resources that are fetched again, too: they would stay as they are if the fetch fails.
    """
    beginning, end = _shelf_bounds(shelf)
    urls = Resource.objects.filter(url_digest__gte=beginning, url_digest__lt=end).order_by("url_digest")
    have = urls.filter(state__in=(UrlState.STORED, UrlState.WANTED), fetched_at__lt=now - YOUNG_AGE).exclude(
        blob_digest=""
    )
    their_blobs = Blob.objects.filter(digest=OuterRef("blob_digest"), taken_down_at=None)
    dangling = have.exclude(Exists(their_blobs)).values_list("url_digest", "blob_digest")
    number = 0
    while some := dict(dangling[: database.ROWS_PER_STATEMENT]):  # the rows before no longer name a blob
        down = takedown.find_taken_down(set(some.values()))
        for digest in sorted(down):
            takedown.fail_urls(digest, [url for url in some if some[url] == digest])
        lost = [url for url in some if some[url] not in down]
        retention.want_urls_again(lost, now)
        number += len(lost)
    if number:
        _log.error("URLs without their bytes are wanted again", extra={"urls": number})


def _shelf_bounds(shelf: str) -> tuple[str, str]:
    """Returns the bounds of a shelf's digests. Any index finds those, but not a beginning by LIKE."""
    return shelf, f"{int(shelf, 16) + 1:02x}" if shelf != "ff" else "fg"


def _is_in_storage(digest: str) -> bool:
    """Looks once more for one object: a listing is of a moment ago."""
    if not blobs.is_storage_remote():
        return blobs.local_path(digest).exists()
    with blobs.translate_storage_errors():
        return bool(default_storage.exists(blobs.blob_name(digest)))


def _blob_rows(found: Iterable[FoundBytes]) -> dict[str, Blob]:
    fields = ("digest", "taken_down_at", "uploaded_at")
    return {row.digest: row for row in Blob.objects.filter(digest__in=[one.digest for one in found]).only(*fields)}


def _storage_objects(shelf: str) -> Iterator[FoundBytes]:
    for name, at in blobs.list_objects(f"{blobs.BLOB_FOLDER}/{shelf}/"):
        digest = name.rpartition("/")[2]
        if DIGEST_PATTERN.fullmatch(digest) and name == blobs.blob_name(digest):
            yield FoundBytes(digest, at.timestamp())


def _local_files(shelf: str, now: datetime) -> Iterator[FoundBytes]:
    """Yields the files of this machine. Repairs or removes the leftovers of killed processes on the way."""
    folders = [entry for entry in _folder_entries(blobs.local_blob_folder() / shelf) if entry.is_dir()]
    for folder in folders:
        for entry in _folder_entries(Path(folder.path)):
            with suppress(FileNotFoundError):  # another process removes it too
                found = FoundBytes(entry.name, entry.stat().st_mtime)
                if DIGEST_PATTERN.fullmatch(entry.name):
                    yield found
                elif found.is_old(now):
                    _remove_leftover(Path(entry.path))


def _remove_leftover(path: Path) -> None:
    """Removes a half-written file, or one put aside to be removed. Puts the latter back if it has a row again."""
    digest = path.name.partition(".")[0]
    if path.name.endswith(blobs.ASIDE_SUFFIX) and Blob.objects.filter(digest=digest, taken_down_at=None).exists():
        with suppress(FileExistsError):
            os.link(path, path.with_name(digest))
    path.unlink(missing_ok=True)


def _folder_entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StorageError(f"The folder {folder.name} could not be read: {error.strerror or error}.") from error
