"""Finds where a blob's bytes are, and uploads those of this machine to the storage.

An upload request is work of the deferral protocol, in a lane of its own, for a client of another machine. The
requests are in `state`, in one list for each machine that holds blobs; the protocol's sweeper fills a lost list
again.

A fetcher's background loop uploads blobs in batches, those with a waiting client first, and removes local files
that it need no longer hold. Bytes are uploaded before the row's `uploaded_at` is set: until then, other machines
believe that this one alone has them.
"""

import logging
import random
import stat
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread
from typing import Literal, cast
from uuid import uuid4

from django.conf import settings
from django.db import Error as DatabaseError

from resources import database, folders
from resources.database import usable_connections
from retry import claims, contents, stores
from retry.contents import Prepared
from retry.errors import PreparationError, QueueUnavailable, StoreUnavailable
from retry.scripts import ScriptCall
from retry.work import Argument, Work

from ..errors import StorageError
from ..models import Blob
from . import blobs, held_files, retention, sweeper


@dataclass(frozen=True, slots=True)
class OnThisMachine:
    """Bytes in a file of this machine. `modified`: the time of storing that main and nginx give to clients."""

    path: Path
    modified: datetime


@dataclass(frozen=True, slots=True)
class InStorage:
    """Bytes in the storage, under that name."""

    name: str


@dataclass(frozen=True, slots=True)
class OnOtherMachine:
    """Bytes on another machine until it uploads them."""

    holder: str


@dataclass(frozen=True, slots=True)
class MissingBytes:
    """Bytes that are not where the row says."""


BlobLocation = OnThisMachine | InStorage | OnOtherMachine | MissingBytes


def locate_blob(blob: Blob) -> BlobLocation:
    """Returns the place of the bytes. Believes the row, but looks at the file on this machine."""
    path = blobs.local_path(blob.digest)
    if modified := _modified_at(path):
        return OnThisMachine(path, blob.stored_at if blobs.is_storage_remote() else modified)
    if blobs.is_storage_remote() and blob.uploaded_at is not None:
        return InStorage(blob.name)
    if blobs.is_storage_remote() and blob.holder != settings.MACHINE:
        return OnOtherMachine(blob.holder)
    return MissingBytes()


def _modified_at(path: Path) -> datetime | None:
    """Returns the file's time, the only one that nginx knows; None if there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return datetime.fromtimestamp(found.st_mtime, UTC) if stat.S_ISREG(found.st_mode) else None


UPLOAD_LANE = "upload"
REQUEST_LIST_SECONDS = 86_400
UPLOADED_FRESH_SECONDS = 10.0
"""The time for which `cache` knows of the upload: only clients that wait for it now look there."""


@dataclass(frozen=True, slots=True)
class UploadRequest:
    """A request that a blob be uploaded, on behalf of a claim of the protocol. `since` is in Unix seconds."""

    digest: str
    token: int
    since: float


def upload_content_key(digest: str) -> str:
    """Returns the content key of the small content that tells waiting clients of the upload."""
    return f"blob:{digest}"


def upload_work(digest: str, holder: str) -> Work:
    return Work(
        key=_upload_work_key(digest),
        kind="upload",
        lane=UPLOAD_LANE,
        refresh_lane=UPLOAD_LANE,
        task="resources.upload",
        arguments=(digest, holder),
    )


def publish_upload(task: str, work_key: str, token: int, arguments: Sequence[Argument], lane: str) -> None:
    """Requests an upload of the machine in the second argument. A lanes.Publisher. Raises QueueUnavailable."""
    digest, holder = map(str, arguments)
    call = ScriptCall(
        "state", "mirror.request", [_request_list_key(holder)], [time.time(), f"{digest} {token}", REQUEST_LIST_SECONDS]
    )
    try:
        stores.execute_call(call)
    except StoreUnavailable as error:
        raise QueueUnavailable(f"The lane {lane} does not take work: {error}") from error


def take_upload_requests(machine: str, most: int, wait_seconds: float) -> list[UploadRequest]:
    """Takes this machine's upload requests, oldest first; waits so long for a first. Raises StoreUnavailable."""
    client, name = stores.patient_client("state"), _request_list_key(machine)
    with stores.translate_errors("state"):
        found = cast(list[tuple[bytes, float]], client.zpopmin(name, most))
        if not found and wait_seconds:
            waited = cast(tuple[bytes, bytes, float] | None, client.bzpopmin([name], wait_seconds))
            found = [waited[1:]] if waited else []
    return [_parse_request(member, since) for member, since in found]


def finish_upload_request(request: UploadRequest, *, is_there: bool) -> None:
    """Ends the request's claim, unless it has ended: waiting clients are sent back. Raises StoreUnavailable."""
    work_key, waited = _upload_work_key(request.digest), max(0.0, time.time() - request.since)
    starting = claims.start_call(work_key, request.token, uuid4().hex)
    started = claims.read_started(stores.execute_patiently(starting))
    if started.outcome != claims.STARTED:
        return
    if is_there:
        ready = Prepared(request.digest.encode(), "text/plain", fresh_seconds=UPLOADED_FRESH_SECONDS, stale_seconds=0)
        writing = contents.store_call(upload_content_key(request.digest), ready, started.token, datetime.now(UTC), 0)
        stores.execute_patiently(writing)
        stores.execute_patiently(claims.finish_stored_call(work_key, started.token, waited))
    else:
        error = PreparationError("The machine that has this file cannot upload it now.", status=503)
        stores.execute_patiently(claims.finish_failed_call(work_key, started.token, error, luck=random.random()))


def _parse_request(member: bytes, since: float) -> UploadRequest:
    digest, _, token = member.decode().partition(" ")
    return UploadRequest(digest, int(token), since)


def _upload_work_key(digest: str) -> str:
    return f"upload:{digest}"


def _request_list_key(machine: str) -> str:
    return f"mirror:upload:{machine}"


SILENT_SECONDS, SLOW_BYTES_PER_SECOND = 5.0, 1_000_000
"""A bucket that takes nothing for so long, and for the smallest file at this rate, is away."""

UPLOAD_BATCH_ROWS = 100
UPLOAD_THREADS = 8
FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS = 1.0, 300.0

_log = logging.getLogger("tarry.mirroring")


@dataclass(slots=True)
class UploadFailures:
    """Blobs that could not be uploaded: how often in a row each failed, and when (monotonic) it is tried again."""

    _failed: dict[str, tuple[int, float]] = field(default_factory=dict)

    def resting(self, now: float) -> list[str]:
        """Returns the digests not due yet. Forgets those due long ago: they were removed, or uploaded elsewhere."""
        since = now - MAX_RETRY_SECONDS
        self._failed = {digest: one for digest, one in self._failed.items() if one[1] > since}
        return [digest for digest, (_, due) in self._failed.items() if due > now]

    def failed(self, digest: str, now: float) -> None:
        times = self._failed.get(digest, (0, 0.0))[0] + 1
        pause = min(FIRST_RETRY_SECONDS * 2 ** (times - 1), MAX_RETRY_SECONDS)
        self._failed[digest] = (times, now + pause)

    def ended(self, digest: str) -> None:
        self._failed.pop(digest, None)


UploadEnd = Literal["uploaded", "refused", "gone"]
"""The storage has the bytes, it did not take them, or they are not on this machine any more."""


class Uploader:
    """The uploader of a machine that fetches; several do no harm. Remembers only recent failures."""

    def __init__(self) -> None:
        self._troubles = UploadFailures()
        self._threads = ThreadPoolExecutor(UPLOAD_THREADS, thread_name_prefix="upload")

    def close(self) -> None:
        """Begins no more uploads. Those under way end by themselves, or with the process."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def run_once(self, wait_seconds: float) -> int:
        """Uploads one batch; returns how many were uploaded. If there are none, waits so long for an upload request.

        Raises DatabaseError and StoreUnavailable.
        """
        wanted = take_upload_requests(settings.MACHINE, UPLOAD_BATCH_ROWS, 0)
        rows = self._rows(wanted)
        if not rows and not wanted:
            wanted = take_upload_requests(settings.MACHINE, UPLOAD_BATCH_ROWS, wait_seconds)
            rows = self._rows(wanted)
        uploaded = self._upload(rows) if rows else []
        self._tell(wanted)
        return len(uploaded)

    def _rows(self, wanted: Sequence[UploadRequest]) -> list[Blob]:
        """Returns the blobs with waiting clients, even if they failed before, then the oldest of the rest."""
        here = Blob.objects.filter(holder=settings.MACHINE, uploaded_at=None, taken_down_at=None)
        digests = {request.digest for request in wanted}
        asked = list(here.filter(digest__in=digests)) if digests else []
        resting = self._troubles.resting(time.monotonic())
        rest = here.exclude(digest__in=[*digests, *resting[: 5 * UPLOAD_BATCH_ROWS]]).order_by("stored_at")
        return asked + list(rest[: max(0, UPLOAD_BATCH_ROWS - len(asked))])

    def _upload(self, rows: Sequence[Blob]) -> list[str]:
        """Uploads bytes in parallel, then writes all rows in one statement; returns the digests."""
        under_way = {row.digest: self._threads.submit(self._upload_one, row) for row in rows}
        self._await_uploads([*under_way.values()], min(row.size for row in rows))
        uploaded = [digest for digest, one in under_way.items() if one.result() == "uploaded"]
        if uploaded:
            confirm_uploads(uploaded, datetime.now(UTC))
            _note_uploads(works=True)
        for digest, one in under_way.items():
            if one.result() == "gone":
                _lose_unuploaded(digest)
        return uploaded

    def _await_uploads(self, under_way: "Sequence[Future[UploadEnd]]", smallest_bytes: int) -> None:
        """Waits until all have ended. Tells other machines while the storage takes none of them."""
        pause, left = SILENT_SECONDS + smallest_bytes / SLOW_BYTES_PER_SECOND, set(under_way)
        while left:
            ended, left = wait(left, pause, FIRST_COMPLETED)
            pause = held_files.UPLOAD_PAUSE_SECONDS / 2
            found = {one.result() for one in under_way if one.done()}
            if "uploaded" not in found and ("refused" in found or not ended):
                _note_uploads(works=False)

    def _upload_one(self, row: Blob) -> UploadEnd:
        try:
            blobs.upload_object(blobs.local_path(row.digest), row.name, row.media_type)
        except FileNotFoundError:
            return "gone"
        except StorageError as error:
            self._troubles.failed(row.digest, time.monotonic())
            _log.warning("a blob could not be uploaded", extra={"digest": row.digest, "error": str(error)})
            return "refused"
        self._troubles.ended(row.digest)
        return "uploaded"

    def _tell(self, wanted: Sequence[UploadRequest]) -> None:
        """Ends the claims of the upload requests."""
        if not wanted:
            return
        digests = [request.digest for request in wanted]
        there = set(Blob.objects.filter(digest__in=digests).exclude(uploaded_at=None).values_list("digest", flat=True))
        for request in wanted:
            try:
                finish_upload_request(request, is_there=request.digest in there)
            except StoreUnavailable as error:  # its claim is swept, and the upload requested again
                _log.warning("could not tell of an upload", extra={"digest": request.digest, "error": str(error)})


def _note_uploads(*, works: bool) -> None:
    """Tells other machines whether this one can upload, if `state` takes it: it is no more than a hint."""
    with suppress(StoreUnavailable):
        held_files.note_uploads(settings.MACHINE, works=works)


def _lose_unuploaded(digest: str) -> None:
    """Gives up a blob without a file here, unless another uploader put it into the storage before the sweep here."""
    if Blob.objects.filter(digest=digest, uploaded_at=None).exists():
        _log.error("the bytes of a blob are gone before they were uploaded", extra={"digest": digest})
        retention.lose_blobs([digest], datetime.now(UTC))


def confirm_uploads(digests: Sequence[str], now: datetime) -> None:
    """Notes in one statement that the storage has these bytes. Removes there those taken down or removed meanwhile."""
    database.update_in_order(
        Blob.objects.filter(digest__in=digests, taken_down_at=None, uploaded_at=None), uploaded_at=now
    )
    kept = Blob.objects.filter(digest__in=digests, taken_down_at=None).values_list("digest", flat=True)
    for digest in set(digests).difference(kept):
        blobs.delete_object(blobs.blob_name(digest))


REQUEST_WAIT_SECONDS = 1.0
SWEEP_HELD_SECONDS, SWEEP_SPOOL_SECONDS = 60.0, 600.0
UPKEEP_PAUSE_SECONDS = 5.0
UPKEEP_END_SECONDS = 5.0


@dataclass(slots=True)
class PeriodicAction:
    every_seconds: float
    do: Callable[[], object]
    due: float = field(default_factory=time.monotonic)

    def take(self) -> None:
        if time.monotonic() >= self.due:
            self.due = time.monotonic() + self.every_seconds
            self.do()


class StorageUpkeep(Thread):
    """The thread of the loop, which ends with the process. If it is killed, the next process does its work again."""

    def __init__(self) -> None:
        super().__init__(name="storage-upkeep", daemon=True)
        self._ended = Event()
        self._turns = [PeriodicAction(SWEEP_SPOOL_SECONDS, _sweep_spool)]
        self._uploader: Uploader | None = None
        if blobs.is_storage_remote():
            self._uploader = Uploader()
            self._turns.append(PeriodicAction(SWEEP_HELD_SECONDS, _sweep_held_blobs))

    def end(self) -> None:
        """Ends the loop. The next process begins unfinished uploads anew."""
        self._ended.set()
        if self._uploader is not None:
            self._uploader.close()
        self.join(UPKEEP_END_SECONDS)

    def run(self) -> None:
        while not self._ended.is_set():
            try:
                with usable_connections():
                    self._run_turns()
            except (DatabaseError, StorageError, StoreUnavailable) as error:
                _log.warning("nothing can be uploaded or swept", extra={"error": str(error)})
                self._ended.wait(UPKEEP_PAUSE_SECONDS)
            except Exception:  # noqa: BLE001  a thread's edge: it must go on
                if not self._ended.is_set():
                    _log.exception("uploading or sweeping failed")
                self._ended.wait(UPKEEP_PAUSE_SECONDS)

    def _run_turns(self) -> None:
        for turn in self._turns:
            turn.take()
        if self._uploader is not None:
            self._uploader.run_once(REQUEST_WAIT_SECONDS)
        else:
            self._ended.wait(UPKEEP_PAUSE_SECONDS)


def _sweep_held_blobs() -> None:
    sweeper.sweep_held_blobs(datetime.now(UTC))


def _sweep_spool() -> None:
    directory = Path(settings.FETCH_SPOOL_DIRECTORY)
    if directory.is_dir():
        folders.remove_orphaned_folders(directory)
