"""Takes a blob down: it is served no more, not fetched again, and the same bytes are not stored again.

The row says so first, and nginx loses its link to the file; then the URLs that gave it. What caches hold is displaced
within HOT_SECONDS, because the rows are looked at whenever a cache asks. Then the bytes go. Copies of other machines
are removed by their own sweepers, thumbnails by a worker; so are its URLs where there are very many. Who is killed over
it leaves the rest to the sweeper.
"""

import logging
import time
from collections.abc import Collection, Sequence
from datetime import UTC, datetime

from celery import current_app
from django.db.models import QuerySet
from kombu.exceptions import OperationalError

from ..errors import StorageError
from ..knowing import ordering, seen
from ..knowing.models import Blob, Resource, State
from ..knowing.seen import Seen
from . import blobs, forgetting, links, losing

FAILURE = "taken down"
DETAIL = "The file was taken down."
STILL_SERVED = "It is taken down, but its link in the storage could not be removed: it may still be served."
TASK = "resources.go_on_taking_down"
QUEUE = "work"
AT_ONCE_SECONDS = 0.5
"""What whoever takes a file down waits for its URLs, of which there may be a million."""
LOOKED_UP = 5000
"""URLs at once: to find those that are left, the others have to be passed over."""

_log = logging.getLogger("tarry.mirroring")


def take_down(digest: str, seconds: float | None = None) -> bool:
    """Whether there is such a blob. Once more does what is left to do. Raises DatabaseError.

    A worker does what takes longer than so many seconds (default: AT_ONCE_SECONDS). Raises StorageError where all is
    done, but nginx may serve the file for as long as its link stays: it has to be taken down once more.
    """
    _withdraw(digest)  # before the row says so, too: whoever is killed right then leaves nothing that nginx serves
    Blob.objects.filter(digest=digest, taken_down_at=None).update(taken_down_at=datetime.now(UTC))
    is_withdrawn = _withdraw(digest)
    blob = Blob.objects.filter(digest=digest).first()
    if blob is None:
        return False
    if not _forget(digest, AT_ONCE_SECONDS if seconds is None else seconds):
        _go_on_soon(digest)
    try:
        blobs.remove(blob)
    except StorageError as error:  # it is not served all the same; the sweeper removes it later
        _log.warning("taken down, but not removed yet", extra={"digest": digest, "error": str(error)})
    forgetting.forget_soon(digest)
    _log.warning("a file was taken down", extra={"digest": digest})
    if not is_withdrawn and not _withdraw(digest):
        raise StorageError(STILL_SERVED)
    return True


def _withdraw(digest: str) -> bool:
    """Whether nginx serves it no more."""
    try:
        links.withdraw(digest)
    except StorageError as error:
        _log.error("nginx may serve what is taken down", extra={"digest": digest, "error": str(error)})
        return False
    return True


def refuse_urls(digest: str, seconds: float) -> bool:
    """URLs that gave this content have failed for good, for about so long; whether all have. Raises DatabaseError."""
    until = time.monotonic() + seconds
    while urls := list(_not_refused(digest).order_by().values_list("pk", flat=True)[:LOOKED_UP]):
        for start in range(0, len(urls), ordering.AT_ONCE):
            refuse(digest, urls[start : start + ordering.AT_ONCE])
            if time.monotonic() >= until:
                return not _not_refused(digest).exists()
    return True


def go_on(digest: str, seconds: float) -> None:
    """Does more of it. Leaves the rest to the next one, behind what else waits. Raises DatabaseError."""
    if not _forget(digest, seconds):
        _go_on_soon(digest)


def _forget(digest: str, seconds: float) -> bool:
    """Refuses its URLs, then forgets by what it was known; whether that is done."""
    until = time.monotonic() + seconds
    return refuse_urls(digest, seconds) and losing.forget_validators([digest], until)


def refuse(digest: str, urls: Sequence[str]) -> None:
    """These have failed for good, as far as they have this content."""
    gave = Resource.objects.filter(pk__in=urls, blob_digest=digest)
    with seen.changing(urls):  # some may have another content by now
        ordering.update(gave, state=State.FAILED, failure=FAILURE, detail=DETAIL, status=None, due_at=None)


def refused(digest: str) -> Seen:
    """How a URL stands that gave this content."""
    return Seen(State.FAILED, digest, FAILURE, DETAIL)


def _not_refused(digest: str) -> QuerySet[Resource]:
    return Resource.objects.filter(blob_digest=digest).exclude(state=State.FAILED, failure=FAILURE)


def _go_on_soon(digest: str) -> None:
    try:
        current_app.send_task(TASK, [digest], queue=QUEUE, retry=False, ignore_result=True)
    except (OperationalError, OSError) as error:
        _log.warning("URLs are refused later", extra={"digest": digest, "error": str(error)})


def taken_down(digests: Collection[str]) -> set[str]:
    """Those that were taken down, of these. Whoever stores asks before."""
    rows = Blob.objects.filter(digest__in=digests).exclude(taken_down_at=None)
    return set(rows.values_list("digest", flat=True))
