"""Retention: notes the last access of blobs, prunes those without requests, and gives up blobs whose bytes are lost.

Accesses are noted to the day, with one statement for each batch of blobs requested for the first time in a day,
and none for hot blobs. Requests that nginx answers by itself count too: its log tells of them.

Pruning takes the blobs that were without requests for the longest time first; pinned blobs stay. Rows go before
bytes: URLs first, which are then as if never reported, then blobs. Lost bytes: the resources' rows change first,
then the blob's row goes, so that no row names a missing one.
"""

import logging
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice

from django.db.models import Q, QuerySet, Sum

from resources import database
from resources.disk.account import disk_bytes

from .. import lookup
from ..canonical.urls import candidate_digests
from ..conf import RetentionLimits
from ..errors import StorageError, UrlError
from ..models import Blob, Resource, UrlState, Validator
from ..url_rules import current_rules
from . import blobs

ACCESS_NOTED_EVERY = timedelta(days=1)
MAX_NOTED_ACCESSES = 50_000

_noted_accesses: dict[str, datetime] = {}
"""Names that this process has noted, and when. Emptied when it grows too large: that costs one more statement each."""


def note_blobs(digests: Collection[str], now: datetime) -> None:
    """Notes a request for each of these blobs. Raises DatabaseError."""
    for some in _not_noted_yet(digests, now):
        database.update_in_order(
            Blob.objects.filter(digest__in=some, accessed_at__lt=now - ACCESS_NOTED_EVERY), accessed_at=now
        )
        _remember_noted(some, now)


def note_urls(urls: Collection[str], now: datetime) -> None:
    """Notes a request for the contents of these URLs, as their signed addresses have them. Raises DatabaseError."""
    for some in _not_noted_yet(urls, now):
        digests = Resource.objects.filter(url_digest__in=list(_known_url_digests(some))).exclude(blob_digest="")
        note_blobs(set(digests.values_list("blob_digest", flat=True)), now)
        _remember_noted(some, now)


def _not_noted_yet(names: Iterable[str], now: datetime) -> Iterator[list[str]]:
    """Yields, in batches, the names that were not noted within a day."""
    left = (name for name in names if name not in _noted_accesses or _noted_accesses[name] <= now - ACCESS_NOTED_EVERY)
    return database.split_portions(left)


def _remember_noted(names: Iterable[str], now: datetime) -> None:
    if len(_noted_accesses) > MAX_NOTED_ACCESSES:
        _noted_accesses.clear()
    _noted_accesses.update(dict.fromkeys(names, now))


def _known_url_digests(urls: Iterable[str]) -> Iterator[str]:
    rules = current_rules()
    for url in urls:
        try:
            yield from candidate_digests(url, rules)
        except UrlError:  # signed under other rules
            continue


def lose_blobs(digests: Iterable[str], now: datetime) -> int:
    """Gives up blobs whose bytes are gone: their URLs are wanted again. Returns how many URLs there are.

    Blobs that were taken down stay as they are. Raises DatabaseError.
    """
    return sum(_lose_batch(some, now) for some in database.split_portions(digests))


def want_urls_again(urls: Collection[str], now: datetime) -> None:
    """Marks URLs, by digest, as without content: they are fetched as soon as their turn comes.

    URLs that are fetched or tried again already keep their turn.
    """
    for some in database.split_portions(urls):
        rows = Resource.objects.filter(url_digest__in=some)
        with lookup.forget_around_change(some):
            database.update_in_order(rows.filter(state=UrlState.WANTED).exclude(blob_digest=""), blob_digest="")
            again = {"wanted_at": now, "due_at": now, "attempts": 0}
            database.update_in_order(rows.filter(state=UrlState.STORED), state=UrlState.WANTED, blob_digest="", **again)


def forget_validators(digests: Collection[str], until: float | None = None) -> bool:
    """Removes the validators of these contents. True if there was time for all of them (`until`, monotonic)."""
    return database.delete_all_in_order(Validator.objects.filter(blob_digest__in=digests), until)


def _lose_batch(digests: Collection[str], now: datetime) -> int:
    lost = list(Blob.objects.filter(digest__in=digests, taken_down_at=None).values_list("digest", flat=True))
    number = 0
    for urls in database.key_portions(Resource.objects.filter(blob_digest__in=lost).exclude(state=UrlState.FAILED)):
        want_urls_again(urls, now)
        number += len(urls)
    forget_validators(lost)
    # Blobs that were stored again since then stay.
    database.delete_in_order(Blob.objects.filter(digest__in=lost, taken_down_at=None, accessed_at__lte=now))
    return number


PRUNE_BATCH_ROWS = 500
HANDLING_TIME = timedelta(minutes=1)
"""Bytes kept so short a time ago may belong to a row about to be written. Without one, the sweeper removes them."""

_log = logging.getLogger("tarry.mirroring")


@dataclass(frozen=True, slots=True)
class PruneCandidate:
    blob: Blob
    why: str


def prune_candidates(retention: RetentionLimits, now: datetime, surplus: int | None = None) -> Iterator[PruneCandidate]:
    """Yields the blobs that are to go, the longest without requests first. Removes none. Raises DatabaseError.

    `surplus`: the bytes beyond the limit, counted if they are unknown.
    """
    surplus = _surplus_bytes(retention) if surplus is None else surplus
    oldest = now - retention.keep if retention.keep is not None else None
    for blob in _removable_blobs().order_by("accessed_at").iterator(PRUNE_BATCH_ROWS):
        if oldest and blob.accessed_at < oldest:
            yield PruneCandidate(blob, "age")
        elif surplus > 0:
            yield PruneCandidate(blob, "size")
        else:
            return
        surplus -= blob.size


def prune_blobs(retention: RetentionLimits, now: datetime, *, seconds: float | None = None) -> tuple[int, int]:
    """Removes blobs that are to go, for at most `seconds`; returns how many blobs and bytes. Raises DatabaseError."""
    until = None if seconds is None else time.monotonic() + seconds
    number = size = 0
    surplus = _surplus_bytes(retention)
    while some := list(islice(prune_candidates(retention, now, surplus - size), PRUNE_BATCH_ROWS)):
        gone = _remove_candidates([one.blob for one in some], until)
        number, size = number + len(gone), size + sum(blob.size for blob in gone)
        if not gone or (until is not None and time.monotonic() > until):
            break
    if number:
        _log.info("pruned", extra={"blobs": number, "bytes": size})
    return number, size


def free_room(surplus: int, now: datetime, *, seconds: float) -> tuple[int, int]:
    """Removes blobs until so many bytes of this machine's disk are free; returns how many blobs and bytes.

    Those whose bytes were kept just now stay: their rows may still be written. Raises DatabaseError.
    """
    until, number, size = time.monotonic() + seconds, 0, 0
    while size < surplus and time.monotonic() < until:
        some = list(_oldest_blobs(surplus - size, now - HANDLING_TIME))
        gone = _remove_candidates(some, until) if some else []
        number, size = number + len(gone), size + sum(disk_bytes(blob.size) for blob in gone)
        if not gone:
            break
    if number:
        _log.info("removed for room on the disk", extra={"blobs": number, "bytes": size, "wanted": surplus})
    return number, size


def _oldest_blobs(surplus: int, before: datetime) -> Iterator[Blob]:
    """Yields blobs of so many bytes, a batch at the most."""
    for blob in _removable_blobs().filter(accessed_at__lt=before).order_by("accessed_at")[:PRUNE_BATCH_ROWS]:
        if surplus <= 0:
            return
        yield blob
        surplus -= disk_bytes(blob.size)


def _remove_candidates(some: Sequence[Blob], until: float | None) -> list[Blob]:
    """Removes blobs; returns those that went. A blob stored or requested at this moment stays, though its URLs may go.

    If the time (monotonic) is up before all rows that name them are gone, they go the next time.
    """
    kept_before, digests = time.time() - HANDLING_TIME.total_seconds(), [blob.digest for blob in some]
    for urls in database.key_portions(given := Resource.objects.filter(blob_digest__in=digests)):
        database.delete_in_order(given.filter(pk__in=urls))
        lookup.forget_statuses(urls)
        if until is not None and time.monotonic() > until:
            return []
    if not forget_validators(digests, until):
        return []
    database.delete_in_order(_removable_blobs().filter(digest__in=digests, accessed_at__lte=some[-1].accessed_at))
    stayed = set(Blob.objects.filter(digest__in=digests).values_list("digest", flat=True))
    gone = [blob for blob in some if blob.digest not in stayed]
    for blob in gone:
        remove_pruned_bytes(blob, kept_before)
    return gone


def remove_pruned_bytes(blob: Blob, kept_before: float) -> None:
    """Removes the bytes of a blob that has no row. If it has a row again, that row is wrong about the storage."""
    try:
        blobs.remove_blob(blob, kept_before=kept_before)
    except StorageError as error:  # the sweeper finds them later
        _log.warning("pruned, but not removed yet", extra={"digest": blob.digest, "error": str(error)})
    if blobs.is_storage_remote():
        Blob.objects.filter(digest=blob.digest).update(uploaded_at=None)


def _removable_blobs() -> QuerySet[Blob]:
    unfinished = Q(uploaded_at=None) if blobs.is_storage_remote() else Q(digest="")
    return Blob.objects.filter(pinned=False, taken_down_at=None).exclude(unfinished)


def _surplus_bytes(retention: RetentionLimits) -> int:
    """Returns the bytes beyond the limit. Looks at all rows, so it is called once in a run."""
    if retention.max_bytes is None:
        return 0
    total = Blob.objects.filter(taken_down_at=None).aggregate(total=Sum("size"))["total"]
    return int(total or 0) - retention.max_bytes
