"""Uploads what is held on this machine to the storage, in batches; what somebody waits for first.

Bytes, then the row's `uploaded_at`: until that is set, others believe that this machine alone has them.
"""

import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime

from resources.threads import usable_connections
from retry.errors import StoreUnavailable

from .. import conf
from ..errors import StorageError
from ..knowing import ordering
from ..knowing.models import Blob
from . import blobs, losing, remote, wishes
from .wishes import Wish

BATCH = 100
SIDE_BY_SIDE = 8
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 300.0

_log = logging.getLogger("tarry.mirroring")


@dataclass(slots=True)
class Troubles:
    """Blobs that could not be uploaded: how often in a row, and when (monotonic) each is tried again."""

    _failed: dict[str, tuple[int, float]] = field(default_factory=dict)

    def resting(self, now: float) -> list[str]:
        """Forgets those that were due long ago and did not come: they were removed, or others have uploaded them."""
        since = now - LONGEST_PAUSE_SECONDS
        self._failed = {digest: one for digest, one in self._failed.items() if one[1] > since}
        return [digest for digest, (_, due) in self._failed.items() if due > now]

    def failed(self, digest: str, now: float) -> None:
        times = self._failed.get(digest, (0, 0.0))[0] + 1
        pause = min(FIRST_PAUSE_SECONDS * 2 ** (times - 1), LONGEST_PAUSE_SECONDS)
        self._failed[digest] = (times, now + pause)

    def ended(self, digest: str) -> None:
        self._failed.pop(digest, None)


class Uploader:
    """One per machine that fetches; several do no harm. Remembers nothing but what failed of late."""

    def __init__(self) -> None:
        self._troubles = Troubles()
        self._threads = ThreadPoolExecutor(SIDE_BY_SIDE, thread_name_prefix="upload")

    def close(self) -> None:
        """Begins nothing more. Uploads at hand end by themselves, or with the process."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def run_once(self, wait_seconds: float) -> int:
        """One batch; how many were uploaded. With nothing to do it waits so long for a wish.

        Raises DatabaseError and StoreUnavailable.
        """
        wanted = wishes.taken(conf.machine(), BATCH, 0)
        rows = self._rows(wanted)
        if not rows and not wanted:
            wanted = wishes.taken(conf.machine(), BATCH, wait_seconds)
            rows = self._rows(wanted)
        uploaded = self._upload(rows) if rows else []
        self._tell(wanted, rows)
        return len(uploaded)

    def _rows(self, wanted: Sequence[Wish]) -> list[Blob]:
        """What somebody waits for, whatever has failed before, then the oldest of the rest."""
        here = Blob.objects.filter(holder=conf.machine(), uploaded_at=None, taken_down_at=None)
        digests = {wish.digest for wish in wanted}
        asked = list(here.filter(digest__in=digests)) if digests else []
        resting = self._troubles.resting(time.monotonic())
        rest = here.exclude(digest__in=[*digests, *resting[: 5 * BATCH]]).order_by("stored_at")
        return asked + list(rest[: max(0, BATCH - len(asked))])

    def _upload(self, rows: Sequence[Blob]) -> list[str]:
        """Bytes side by side, then all rows in one statement; the digests."""
        there = self._threads.map(self._upload_one, rows)
        uploaded = [row.digest for row, is_there in zip(rows, there, strict=True) if is_there]
        if uploaded:
            confirm(uploaded, datetime.now(UTC))
        return uploaded

    def _upload_one(self, row: Blob) -> bool:
        try:
            remote.upload(blobs.path_of(row.digest), row.name, row.media_type)
        except FileNotFoundError:
            with usable_connections():
                _lose(row.digest)
            return False
        except StorageError as error:
            self._troubles.failed(row.digest, time.monotonic())
            _log.warning("a blob could not be uploaded", extra={"digest": row.digest, "error": str(error)})
            return False
        self._troubles.ended(row.digest)
        return True

    def _tell(self, wanted: Sequence[Wish], tried: Sequence[Blob]) -> None:
        """Ends the claims of those who wait."""
        if not wanted:
            return
        digests = [wish.digest for wish in wanted]
        there = set(Blob.objects.filter(digest__in=digests).exclude(uploaded_at=None).values_list("digest", flat=True))
        for wish in wanted:
            try:
                wishes.end(wish, is_there=wish.digest in there)
            except StoreUnavailable as error:  # its claim is swept, and asked for again
                _log.warning("could not tell of an upload", extra={"digest": wish.digest, "error": str(error)})


def _lose(digest: str) -> None:
    """Its bytes are nowhere, unless another uploader had them in the storage before they were swept here."""
    if Blob.objects.filter(digest=digest, uploaded_at=None).exists():
        _log.error("the bytes of a blob are gone before they were uploaded", extra={"digest": digest})
        losing.lose([digest], datetime.now(UTC))


def confirm(digests: Sequence[str], now: datetime) -> None:
    """The storage has these bytes: one statement. What was taken down or removed meanwhile is removed there again."""
    ordering.update(Blob.objects.filter(digest__in=digests, taken_down_at=None, uploaded_at=None), uploaded_at=now)
    kept = Blob.objects.filter(digest__in=digests, taken_down_at=None).values_list("digest", flat=True)
    for digest in set(digests).difference(kept):
        remote.delete(blobs.name_of(digest))
