"""Takes a blob down: it is no longer served, not fetched again, and the same bytes are not stored again.

The row changes first, and nginx loses its link to the file; then the URLs that gave it fail. Copies in caches are
displaced within HOT_SECONDS, because main reads the row whenever a cache asks. Then the bytes go. The sweepers of
other machines remove their copies. A worker removes thumbnails from `cache`, because Redis has to scan all its
keys; if that fails, they go when they expire. A worker also fails the URLs if there are very many. If the process
is killed, the sweeper does the rest.
"""

import logging
import time
from collections.abc import Collection, Sequence
from datetime import UTC, datetime

from django.db import connection
from django.db.models import QuerySet

from resources import database
from retry import lanes, stores
from retry.contents import content_name
from retry.errors import QueueUnavailable

from .. import lookup
from ..errors import StorageError
from ..media.thumbnails import thumbnail_key_pattern
from ..models import Blob, Resource, UrlState
from . import blobs, retention

FORGET_THUMBNAILS_TASK = "resources.forget_thumbnails"
THUMBNAILS_QUEUE = "work"
KEYS_PER_SCAN = 1000
"""Keys in one step: some tenths of a millisecond, in which Redis answers no other client."""

_log = logging.getLogger("tarry.mirroring")


def remove_thumbnails(digest: str) -> int:
    """Removes the thumbnails of a file; returns how many there were. Raises RedisError."""
    client, pattern = stores.patient_client("cache"), content_name(thumbnail_key_pattern(digest))
    return sum(client.unlink(key) for key in client.scan_iter(match=pattern, count=KEYS_PER_SCAN))


TAKEN_DOWN_FAILURE = "taken down"
TAKEN_DOWN_DETAIL = "The file was taken down."
STILL_SERVED_DETAIL = (
    "The file is taken down, but its link in the storage could not be removed: it may still be served."
)
CONTINUE_TAKEDOWN_TASK = "resources.go_on_taking_down"
IMMEDIATE_SECONDS = 0.5
"""The time for which a takedown waits for the URLs of the file, of which there may be a million."""
REFUSED_BATCH_ROWS = 5000
"""URLs at once: to find the rest, the query has to pass over the others."""


def take_down_blob(digest: str, seconds: float | None = None) -> bool:
    """Takes a blob down. True if there is such a blob. A second call does the rest of the first. Raises DatabaseError.

    A worker does the work beyond `seconds` (default: IMMEDIATE_SECONDS). Raises StorageError if all is done, but nginx
    may still serve the file because its link stays: then the blob has to be taken down once more.
    """
    _withdraw_link(digest)  # before the row changes, too: a process killed right then leaves no link
    Blob.objects.filter(digest=digest, taken_down_at=None).update(taken_down_at=datetime.now(UTC))
    is_withdrawn = _withdraw_link(digest)
    blob = Blob.objects.filter(digest=digest).first()
    if blob is None:
        return False
    if not _fail_and_forget(digest, IMMEDIATE_SECONDS if seconds is None else seconds):
        _enqueue_task(CONTINUE_TAKEDOWN_TASK, digest, "URLs are refused later")
    try:
        blobs.remove_blob(blob)
    except StorageError as error:  # it is no longer served; the sweeper removes it later
        _log.warning("taken down, but not removed yet", extra={"digest": digest, "error": str(error)})
    _enqueue_task(FORGET_THUMBNAILS_TASK, digest, "thumbnails stay in the cache")
    _log.warning("a file was taken down", extra={"digest": digest})
    if not is_withdrawn and not _withdraw_link(digest):
        raise StorageError(STILL_SERVED_DETAIL)
    return True


def _withdraw_link(digest: str) -> bool:
    """Removes the links of a blob. True if nginx no longer serves it."""
    try:
        blobs.withdraw_links(digest)
    except StorageError as error:
        _log.error("nginx may serve what is taken down", extra={"digest": digest, "error": str(error)})
        return False
    return True


def fail_urls_of_blob(digest: str, seconds: float) -> bool:
    """Fails the URLs that gave this content, for about `seconds`. True if all have failed. Raises DatabaseError."""
    until = time.monotonic() + seconds
    while urls := list(_rows_not_failed(digest).order_by().values_list("pk", flat=True)[:REFUSED_BATCH_ROWS]):
        for some in database.split_portions(urls):
            fail_urls(digest, some)
            if time.monotonic() >= until:
                return not _rows_not_failed(digest).exists()
    return True


def continue_takedown(digest: str, seconds: float) -> None:
    """Goes on with a takedown. Leaves the rest to another task, at the end of the lane. Raises DatabaseError."""
    if not _fail_and_forget(digest, seconds):
        _enqueue_task(CONTINUE_TAKEDOWN_TASK, digest, "URLs are refused later")


def _fail_and_forget(digest: str, seconds: float) -> bool:
    """Fails the blob's URLs, then removes its validators. True if that is done."""
    until = time.monotonic() + seconds
    return fail_urls_of_blob(digest, seconds) and retention.forget_validators([digest], until)


def fail_urls(digest: str, urls: Sequence[str]) -> None:
    """Fails these URLs for good, as far as they have this content."""
    gave = Resource.objects.filter(pk__in=urls, blob_digest=digest)
    with lookup.forget_around_change(urls):  # some may have another content by now
        database.update_in_order(
            gave, state=UrlState.FAILED, failure=TAKEN_DOWN_FAILURE, detail=TAKEN_DOWN_DETAIL, status=None, due_at=None
        )


def _rows_not_failed(digest: str) -> QuerySet[Resource]:
    return Resource.objects.filter(blob_digest=digest).exclude(state=UrlState.FAILED, failure=TAKEN_DOWN_FAILURE)


def _enqueue_task(name: str, digest: str, if_lost: str) -> None:
    """Has a worker run a task for a file; logs `if_lost` if the queue is away. Never fails."""
    try:
        lanes.send_task(name, [digest], THUMBNAILS_QUEUE)
    except QueueUnavailable as error:
        _log.warning(if_lost, extra={"digest": digest, "error": str(error)})


_TAKEN_DOWN = f"SELECT 1 FROM {Blob._meta.db_table} WHERE digest = %s AND taken_down_at IS NOT NULL"  # noqa: S608


def is_taken_down(digest: str) -> bool:
    """Tells whether content was taken down, for each file: Django takes longer to write the query than to run it."""
    with connection.cursor() as cursor:
        cursor.execute(_TAKEN_DOWN, [digest])
        return cursor.fetchone() is not None


def find_taken_down(digests: Collection[str]) -> set[str]:
    """Returns the digests among these that were taken down. Called before storing."""
    rows = Blob.objects.filter(digest__in=digests).exclude(taken_down_at=None)
    return set(rows.values_list("digest", flat=True))
