"""Takes a blob down: it is served no more, not fetched again, and the same bytes are not stored again.

The row says so first, then the URLs that gave it; what caches hold is displaced within HOT_SECONDS, because the rows
are looked at whenever a cache asks. Then the bytes go. Copies of other machines are removed by their own sweepers,
thumbnails by a worker.
"""

import logging
from collections.abc import Collection
from datetime import UTC, datetime

from ..errors import StorageError
from ..knowing import seen
from ..knowing.models import Blob, Resource, State
from ..knowing.seen import Seen
from . import blobs, forgetting, losing

FAILURE = "taken down"
DETAIL = "The file was taken down."

_log = logging.getLogger("tarry.mirroring")


def take_down(digest: str) -> bool:
    """Whether there is such a blob. Once more does what is left to do. Raises DatabaseError."""
    Blob.objects.filter(digest=digest, taken_down_at=None).update(taken_down_at=datetime.now(UTC))
    blob = Blob.objects.filter(digest=digest).first()
    if blob is None:
        return False
    refuse_urls(digest)
    losing.forget_validators([digest])
    try:
        blobs.remove(blob)
    except StorageError as error:  # it is not served all the same; the sweeper removes it later
        _log.warning("taken down, but not removed yet", extra={"digest": digest, "error": str(error)})
    forgetting.forget_soon(digest)
    _log.warning("a file was taken down", extra={"digest": digest})
    return True


def refuse_urls(digest: str) -> None:
    """URLs that gave this content have failed for good."""
    urls = losing.url_digests([digest])
    Resource.objects.filter(blob_digest=digest).update(
        state=State.FAILED, failure=FAILURE, detail=DETAIL, status=None, due_at=None
    )
    refused = Seen(State.FAILED, digest, FAILURE, DETAIL)
    seen.note(dict.fromkeys(urls, refused))


def taken_down(digests: Collection[str]) -> set[str]:
    """Those that were taken down, of these. Whoever stores asks before."""
    rows = Blob.objects.filter(digest__in=digests).exclude(taken_down_at=None)
    return set(rows.values_list("digest", flat=True))
