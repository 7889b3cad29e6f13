"""Finds what does not belong together: bytes without a row, rows without bytes, links to neither. A shelf at a time.

A shelf is what begins with the same two digits of its digest: 256 of them, one a minute, so that all is looked at in
about four hours. What is younger than an hour is left alone: somebody may be about to write its row.
"""

import logging
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from django.core.files.storage import default_storage
from django.db.models import Exists, OuterRef

from .. import conf
from ..errors import StorageError
from ..knowing.models import Blob, Resource, State
from . import blobs, links, losing, remote, taking_down
from .links import Link

SHELVES = 256
YOUNG = timedelta(hours=1)
PORTION = 500
MOST_LOST, MOST_LOST_SHARE = 3, 0.1
"""When more of a shelf is gone, it is the storage that is gone: an operator has to look."""

_DIGEST = re.compile(r"[0-9a-f]{64}")
_log = logging.getLogger("tarry.mirroring")


@dataclass(frozen=True, slots=True)
class Found:
    """Bytes under the name of a digest, and when they were last written or kept again, in Unix seconds."""

    digest: str
    at: float

    def is_old(self, now: datetime) -> bool:
        return self.at < (now - YOUNG).timestamp()


def shelf_of(now: datetime) -> str:
    """The shelf whose turn it is in this minute."""
    return f"{int(now.timestamp()) // 60 % SHELVES:02x}"


def sweep_shelf(shelf: str, now: datetime) -> None:
    """Compares one shelf of the storage with the rows. Raises DatabaseError, and StorageError at the end."""
    _find_dangling(shelf, now)
    _remove_false_links(shelf)  # before what a broken file may stop: nginx serves by them
    if blobs.is_elsewhere():
        if not remote.can_list():
            return
        found = list(_objects(shelf))
    else:
        found = list(_files(shelf, now))
    _find_lost(shelf, {one.digest for one in found}, now)
    _remove_orphans(found, now)


def sweep_held(now: datetime) -> None:
    """What this machine holds: removed when it was uploaded a while ago, taken down, or has no row.

    Raises DatabaseError and StorageError.
    """
    for number in range(SHELVES):
        for some in _portions(_files(f"{number:02x}", now)):
            _sweep_held(some, now)


def _sweep_held(found: Sequence[Found], now: datetime) -> None:
    rows = _rows(found)
    for one in found:
        row = rows.get(one.digest)
        if row is None:
            done = one.is_old(now)
        else:
            done = row.taken_down_at is not None or _is_past(row.uploaded_at, now - conf.grace())
        if done:
            blobs.remove_here(one.digest, kept_before=one.at)


def _remove_orphans(found: Sequence[Found], now: datetime) -> None:
    for some in _portions(found):
        rows = _rows(some)
        for one in some:
            row = rows.get(one.digest)
            if row is None and one.is_old(now):
                _log.warning("bytes without a row were removed", extra={"digest": one.digest})
                _remove_orphan(one)
            elif row is not None and row.taken_down_at is not None:
                blobs.remove(row)


def _remove_orphan(one: Found) -> None:
    if not blobs.is_elsewhere():
        blobs.remove_here(one.digest, kept_before=one.at)
        return
    remote.delete(blobs.name_of(one.digest))
    # Its row may have been written, and the bytes uploaded, just before: they are held for a while, and go again.
    Blob.objects.filter(digest=one.digest).update(uploaded_at=None)


def _remove_false_links(shelf: str) -> None:
    """What nginx would serve without asking, and main would not, or otherwise: left by whoever was killed."""
    found = list(links.of_shelf(shelf))
    for start in range(0, len(found), PORTION):
        some = found[start : start + PORTION]
        known = Blob.objects.filter(digest__in=[one.digest for one in some], taken_down_at=None)
        types = dict(known.values_list("digest", "media_type"))
        for one in some:
            if not one.is_true(types.get(one.digest), blobs.path_of(one.digest)):
                _remove_link(one)


def _remove_link(link: Link) -> None:
    """One that cannot be removed is left: there are others."""
    try:
        link.remove()
    except StorageError as error:
        _log.error("nginx may serve what it may not", extra={"link": link.path.name, "error": str(error)})
    else:
        _log.warning("a link to a file was removed", extra={"link": link.path.name})


def _find_lost(shelf: str, there: set[str], now: datetime) -> None:
    """Rows that say bytes are in the storage where there are none."""
    beginning, end = _bounds(shelf)
    rows = Blob.objects.filter(digest__gte=beginning, digest__lt=end, taken_down_at=None, stored_at__lt=now - YOUNG)
    if blobs.is_elsewhere():
        rows = rows.filter(uploaded_at__lt=now - YOUNG)
    digests = list(rows.order_by("digest").values_list("digest", flat=True))
    lost = [digest for digest in digests if digest not in there and not _is_there(digest)]
    if len(lost) > max(MOST_LOST, MOST_LOST_SHARE * len(digests)):
        extra = {"shelf": shelf, "lost": len(lost), "of": len(digests)}
        _log.error("much of the storage is not there: nothing is done about it", extra=extra)
    elif lost:
        urls = losing.lose(lost, now)
        _log.error("bytes are gone: their URLs are wanted again", extra={"digests": lost, "urls": urls})


def _find_dangling(shelf: str, now: datetime) -> None:
    """Resources whose blob has no row, or was taken down: that happened while they were written, or was not ended.

    Those that are fetched again, too: they stay as they are when that fails.
    """
    beginning, end = _bounds(shelf)
    urls = Resource.objects.filter(url_digest__gte=beginning, url_digest__lt=end).order_by("url_digest")
    have = urls.filter(state__in=(State.STORED, State.WANTED), fetched_at__lt=now - YOUNG).exclude(blob_digest="")
    their_blobs = Blob.objects.filter(digest=OuterRef("blob_digest"), taken_down_at=None)
    dangling = have.exclude(Exists(their_blobs)).values_list("url_digest", "blob_digest")
    number = 0
    while some := dict(dangling[:PORTION]):  # those of before no longer have it
        down = taking_down.taken_down(set(some.values()))
        for digest in sorted(down):
            taking_down.refuse(digest, [url for url in some if some[url] == digest])
        lost = [url for url in some if some[url] not in down]
        losing.want_again(lost, now)
        number += len(lost)
    if number:
        _log.error("URLs without their bytes are wanted again", extra={"urls": number})


def _bounds(shelf: str) -> tuple[str, str]:
    """Its digests are between these, which any index finds: not so what they begin with, by LIKE."""
    return shelf, f"{int(shelf, 16) + 1:02x}" if shelf != "ff" else "fg"


def _is_there(digest: str) -> bool:
    """Looks once more: a listing is of a moment ago."""
    if not blobs.is_elsewhere():
        return blobs.path_of(digest).exists()
    with remote.told():
        return bool(default_storage.exists(blobs.name_of(digest)))


def _rows(found: Iterable[Found]) -> dict[str, Blob]:
    fields = ("digest", "taken_down_at", "uploaded_at")
    return {row.digest: row for row in Blob.objects.filter(digest__in=[one.digest for one in found]).only(*fields)}


def _objects(shelf: str) -> Iterator[Found]:
    for name, at in remote.listed(f"{blobs.FOLDER}/{shelf}/"):
        digest = name.rpartition("/")[2]
        if _DIGEST.fullmatch(digest) and name == blobs.name_of(digest):
            yield Found(digest, at.timestamp())


def _files(shelf: str, now: datetime) -> Iterator[Found]:
    """Of this machine. What a killed process left is put right, or removed, on the way."""
    for folder in _folders(blobs.shelves() / shelf):
        for entry in _entries(folder):
            with suppress(FileNotFoundError):  # another process removes it too
                found = Found(entry.name, entry.stat().st_mtime)
                if _DIGEST.fullmatch(entry.name):
                    yield found
                elif found.is_old(now):
                    _remove_left_behind(Path(entry.path))


def _remove_left_behind(path: Path) -> None:
    """A file half-written, or one that was put aside to be removed: it may be wanted again by now."""
    digest = path.name.partition(".")[0]
    if path.name.endswith(blobs.ASIDE) and Blob.objects.filter(digest=digest, taken_down_at=None).exists():
        with suppress(FileExistsError):
            os.link(path, path.with_name(digest))
    path.unlink(missing_ok=True)


def _folders(shelf: Path) -> list[Path]:
    return [Path(entry.path) for entry in _entries(shelf) if entry.is_dir()]


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StorageError(f"The folder {folder.name} could not be read: {error.strerror or error}.") from error


def _portions(found: Iterable[Found]) -> Iterator[list[Found]]:
    portion: list[Found] = []
    for one in found:
        portion.append(one)
        if len(portion) == PORTION:
            yield portion
            portion = []
    if portion:
        yield portion


def _is_past(moment: datetime | None, limit: datetime) -> bool:
    return moment is not None and moment < limit
