"""Retention: removes what nobody has asked for in a while, the longest unasked first. Never what is pinned.

Rows go before bytes: URLs first, which are then as if they had never been seen, then blobs.
"""

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Q, QuerySet, Sum

from ..conf import Retention
from ..errors import StorageError
from ..knowing import ordering, seen
from ..knowing.models import Blob, Resource
from . import blobs, losing

BATCH = 500
HANDLING = timedelta(minutes=1)
"""Bytes that were kept so short a time ago may be those of a row that is about to be written: these stay, and are
swept if there will be none.
"""

_log = logging.getLogger("tarry.mirroring")


@dataclass(frozen=True, slots=True)
class Due:
    """What would go, and why."""

    blob: Blob
    why: str


def due(retention: Retention, now: datetime) -> Iterator[Due]:
    """What goes, the longest unasked first. Removes nothing. Raises DatabaseError."""
    return _due(retention, _surplus_bytes(retention), now)


def _due(retention: Retention, surplus: int, now: datetime) -> Iterator[Due]:
    oldest = now - retention.keep if retention.keep is not None else None
    for blob in _removable().order_by("accessed_at").iterator(BATCH):
        if oldest and blob.accessed_at < oldest:
            yield Due(blob, "age")
        elif surplus > 0:
            yield Due(blob, "size")
        else:
            return
        surplus -= blob.size


def prune(retention: Retention, now: datetime, *, seconds: float | None = None) -> tuple[int, int]:
    """Removes what is due, for so long at the most; how many blobs and bytes went. Raises DatabaseError."""
    until = None if seconds is None else time.monotonic() + seconds
    number = size = 0
    surplus = _surplus_bytes(retention)
    while some := _some(retention, surplus - size, now):
        gone = _remove(some, until)
        number, size = number + len(gone), size + sum(blob.size for blob in gone)
        if not gone or (until is not None and time.monotonic() > until):
            break
    if number:
        _log.info("pruned", extra={"blobs": number, "bytes": size})
    return number, size


def _some(retention: Retention, surplus: int, now: datetime) -> list[Blob]:
    found = []
    for one in _due(retention, surplus, now):
        found.append(one.blob)
        if len(found) == BATCH:
            break
    return found


def _remove(some: Sequence[Blob], until: float | None) -> list[Blob]:
    """Those that went. One that somebody stores or asks for in this moment stays, though its URLs may have gone.

    When the time (monotonic) is up before all that names them has gone, they go the next time.
    """
    kept_before, digests = time.time() - HANDLING.total_seconds(), [blob.digest for blob in some]
    for urls in ordering.portions(given := Resource.objects.filter(blob_digest__in=digests)):
        ordering.delete(given.filter(pk__in=urls))
        seen.forget(urls)
        if until is not None and time.monotonic() > until:
            return []
    if not losing.forget_validators(digests, until):
        return []
    ordering.delete(_removable().filter(digest__in=digests, accessed_at__lte=some[-1].accessed_at))
    stayed = set(Blob.objects.filter(digest__in=digests).values_list("digest", flat=True))
    gone = [blob for blob in some if blob.digest not in stayed]
    for blob in gone:
        remove_bytes(blob, kept_before)
    return gone


def remove_bytes(blob: Blob, kept_before: float) -> None:
    """Removes the bytes of a blob that has no row. If it has one again, what that says of the storage is wrong."""
    try:
        blobs.remove(blob, kept_before=kept_before)
    except StorageError as error:  # the sweeper finds them later
        _log.warning("pruned, but not removed yet", extra={"digest": blob.digest, "error": str(error)})
    if blobs.is_elsewhere():
        Blob.objects.filter(digest=blob.digest).update(uploaded_at=None)


def _removable() -> QuerySet[Blob]:
    unfinished = Q(uploaded_at=None) if blobs.is_elsewhere() else Q(digest="")
    return Blob.objects.filter(pinned=False, taken_down_at=None).exclude(unfinished)


def _surplus_bytes(retention: Retention) -> int:
    """Looks at all rows: asked for once in a run."""
    if retention.max_bytes is None:
        return 0
    total = Blob.objects.filter(taken_down_at=None).aggregate(total=Sum("size"))["total"]
    return int(total or 0) - retention.max_bytes
