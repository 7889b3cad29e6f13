"""Brings the bytes of a blob to the client: from main, from nginx, from the bucket, or after a wait.

Looks up no row. A file requested by digest is offered to nginx, which then serves it without asking main
(`storage.blobs.offer_link`). Until then, and for other blobs, main sends small ones, and nginx keeps them like
all content; nginx reads large ones by itself (X-Accel-Redirect). Without nginx, which sets `X-Front`, Django
streams them and answers range requests (RFC 9110, 14): one range of bytes; a request for more gets all bytes.

Clients get errors for URLs that have failed, until their pause is over, and wait for those that are fetched.
"""

import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from django.conf import settings
from django.http import FileResponse, HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase

from retry import deferral, headers, responses
from retry.conf import conf as retry_conf
from retry.contents import Content
from retry.errors import StoreUnavailable

from ..fetch.http.messages import Failure
from .errors import StorageError
from .ingest import url_outcome
from .lookup import UrlStatus
from .models import Blob, UrlState
from .public_files import SAFE_HEADERS, CachePolicy, delivery_fields
from .storage import blobs, held_files, uploads
from .storage.takedown import TAKEN_DOWN_FAILURE as TAKEN_DOWN
from .storage.uploads import BlobLocation, InStorage, MissingBytes, OnOtherMachine, OnThisMachine, locate_blob

GONE_DETAIL = "This file was taken down."

_NOT_THERE_STATUSES = frozenset({404, 410})


def failure_response(known: UrlStatus, now: datetime) -> HttpResponse | None:
    """Returns 404, 410, 502 or 504; None for a URL that is wanted or stored.

    Retry-After says from when on a request has it tried again. Without the field, none does.
    """
    if known.state is not UrlState.FAILED:
        return None
    if known.failure == TAKEN_DOWN:
        return gone_response()
    detail = url_outcome.PUBLIC_REASONS.get(known.failure, f"The origin: {known.detail.rstrip('.')}.")
    wait_seconds = None if known.due_at is None else max(1.0, (known.due_at - now).total_seconds())
    if known.status in _NOT_THERE_STATUSES or known.failure == Failure.EXPIRED.value:
        return responses.problem_response(404, detail, wait_seconds=wait_seconds, keep_seconds=1)
    status = 504 if known.failure == Failure.TOO_SLOW.value else 502
    return responses.problem_response(status, detail, wait_seconds=wait_seconds)


def gone_response() -> HttpResponse:
    """Returns 410, kept for a second, to displace copies in caches. Not 451: the reason of the takedown is unknown."""
    return responses.problem_response(410, GONE_DETAIL, cache_status="Tarry; fwd=bypass; detail=gone", keep_seconds=1)


_RANGE_PATTERN = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Bytes from `start` to before `end`, of `size`."""

    start: int
    end: int
    size: int

    @property
    def is_whole(self) -> bool:
        return self.end - self.start == self.size

    @property
    def content_range(self) -> str:
        return f"bytes {self.start}-{self.end - 1}/{self.size}"


def select_range(header: str, if_range: str, etag: str, size: int) -> ByteRange | None:
    """Returns the bytes that the client wants of `size`; None if it wants bytes beyond the end (416).

    Returns all of them without a valid range, or with an If-Range that names other content.
    """
    everything = ByteRange(0, size, size)
    found = _RANGE_PATTERN.fullmatch(header.strip())
    if not found or (if_range and if_range.strip() != etag):
        return everything
    first, last = found.groups()
    if first:
        start, end = int(first), min(int(last or size) + (1 if last else 0), size)
        if last and int(last) < int(first):  # malformed: ignored
            return everything
    elif last:
        start, end = max(0, size - int(last)), size
    else:
        return everything
    return ByteRange(start, end, size) if start < end else None


FILES_LOCATION, BUCKET_LOCATION = "/delivered/here/", "/delivered/bucket/"
"""nginx' internal locations. See nginx/delivered.conf."""
LINK_FIELD = "X-Bucket-Link"
CACHE_CONTROL_FIELD = "X-Delivered-Cache-Control"
"""The field for Cache-Control in a hand-over: nginx would add one of its own to main's."""

LARGE_FIELD = "X-Delivered-Large"
"""The field of answers that nginx passes on, and does not keep."""

_log = logging.getLogger("tarry.mirroring")


class FileAnswer(FileResponse):
    """A file, sent by the server's own means. Its type is not guessed."""

    def set_headers(self, filelike: Any) -> None:
        """Sets none: all fields were given."""


def deliver_blob(request: HttpRequest, blob: Blob, caching: CachePolicy) -> HttpResponseBase:
    """Answers GET or HEAD with the blob, or with the reason why not."""
    if blob.taken_down_at is not None:
        return gone_response()
    place = locate_blob(blob)
    modified = place.modified if isinstance(place, OnThisMachine) else blob.stored_at
    dated = modified if caching.is_dated else None
    fields = delivery_fields(blob.media_type, blob.digest, dated, caching, retry_conf().HOT_SECONDS)
    if isinstance(place, OnThisMachine) and caching.is_for_good and responses.is_behind_nginx(request):
        blobs.offer_link(blob, place.path)
    probe = HttpResponse(headers=fields)
    size_bytes = blob.size if _is_sent_by_main(request, place, blob) else 0  # nginx compresses only that
    seconds = int(dated.timestamp()) if dated else None
    answer = responses.conditional_response(request, probe, seconds, size_bytes=size_bytes)
    if answer is not probe:
        return _complete_answer(answer)
    return _send_bytes(request, blob, place, caching, dict(probe.items()))


def _send_bytes(
    request: HttpRequest, blob: Blob, place: BlobLocation, caching: CachePolicy, known: Mapping[str, str]
) -> HttpResponseBase:
    match place:
        case OnThisMachine() if _is_read_by_nginx(request, blob):
            return _hand_to_nginx(f"{FILES_LOCATION}{blob.digest[:2]}/{blob.digest[2:4]}/{blob.digest}", known)
        case OnThisMachine(path):
            return _file_answer(request, blob, path, {**known, **_size_fields(request, blob)})
        case InStorage(name):
            return _storage_answer(request, blob, name, known)
        case OnOtherMachine(holder):
            fields = {**known, **_size_fields(request, blob)}
            if answer := _held_answer(request, blob, holder, fields):
                return answer
            return wait_for_upload(request, blob.digest, holder, lambda row: deliver_blob(request, row, caching))
        case MissingBytes():
            _log.error("a blob is not where its row says", extra={"digest": blob.digest})
            return responses.not_now_response("The file is missing from the storage.")


def _is_read_by_nginx(request: HttpRequest, blob: Blob) -> bool:
    """True for large files if nginx can read them: it is on this machine, or the storage is a shared folder."""
    is_elsewhere = bool(settings.MAIN_LISTEN and request.META.get("REMOTE_ADDR")) and blobs.is_storage_remote()
    return responses.is_behind_nginx(request) and blob.size > settings.MIRROR_HOT_BYTES and not is_elsewhere


def _size_fields(request: HttpRequest, blob: Blob) -> dict[str, str]:
    """Keeps a large file that main sends to a front elsewhere out of its hot cache."""
    return {LARGE_FIELD: "1"} if responses.is_behind_nginx(request) and blob.size > settings.MIRROR_HOT_BYTES else {}


def _is_sent_by_main(request: HttpRequest, place: BlobLocation, blob: Blob) -> bool:
    """True if main itself sends the bytes to nginx, which else takes them from their place."""
    match place:
        case OnThisMachine():
            return not _is_read_by_nginx(request, blob)
        case _:
            return not blobs.has_links()


def _complete_answer(answer: HttpResponse) -> HttpResponse:
    """The 304 with all fields of the file, or the 412 as it is."""
    for name, value in SAFE_HEADERS.items() if answer.status_code == 304 else ():
        answer[name] = value
    return answer


def _file_answer(request: HttpRequest, blob: Blob, path: Path, known: Mapping[str, str]) -> HttpResponseBase:
    try:
        file = path.open("rb")
    except OSError as error:
        _log.error("a blob cannot be read", extra={"digest": blob.digest, "error": str(error)})
        return responses.not_now_response("The file cannot be read now.")
    wanted = _requested_range(request, blob, known)
    if wanted is None:
        file.close()
        return _out_of_range(blob)
    if wanted.is_whole:
        return FileAnswer(file, headers={**known, "Content-Length": str(blob.size)})
    return _range_answer(_read_and_close(file, wanted), wanted, known)


def _storage_answer(request: HttpRequest, blob: Blob, name: str, known: Mapping[str, str]) -> HttpResponseBase:
    """Answers from the storage: by a link to it, which nginx or the client follows, else by a stream."""
    link = blobs.bucket_link(name, known["Content-Type"], known["Content-Disposition"])
    if link and settings.MIRROR_DELIVERY != "proxy":
        # No cache keeps the answer: the link ends, and so may the file.
        uncached = headers.uncached_headers("Tarry; fwd=bypass; detail=bucket")
        return HttpResponse(status=302, headers={**uncached, "Location": link})
    if link and responses.is_behind_nginx(request):
        return _hand_to_nginx(f"{BUCKET_LOCATION}{blob.digest}", {**known, LINK_FIELD: link})
    wanted = _requested_range(request, blob, known)
    if wanted is None:
        return _out_of_range(blob)
    try:
        body = _read_first_piece(blobs.stream_object(name, wanted.start, wanted.end)) if blob.size else iter(())
    except (StorageError, FileNotFoundError) as error:
        _log.error("a blob cannot be read", extra={"digest": blob.digest, "error": str(error)})
        return responses.not_now_response("The storage does not answer now.")
    return _range_answer(body, wanted, known)


def _held_answer(request: HttpRequest, blob: Blob, holder: str, known: Mapping[str, str]) -> HttpResponseBase | None:
    """Answers with the bytes as the machine gives them that holds them; None if it cannot be asked."""
    wanted = _requested_range(request, blob, known)
    if wanted is None:
        return _out_of_range(blob)
    try:
        machine = held_files.find_holder(holder)
        if not machine.address:
            return None
        if request.method == "HEAD":
            return _range_answer(iter(()), wanted, known)
        body = _read_first_piece(held_files.read_held(machine, blob.digest, blob.size))
    except (StorageError, StoreUnavailable) as error:
        _log.warning("no file from another machine", extra={"digest": blob.digest, "error": str(error)})
        return None
    return _range_answer(held_files.cut_pieces(body, wanted.start, wanted.end), wanted, known)


def held_response(digest: str) -> HttpResponseBase:
    """The bytes of this machine for another one of the site; 404 if they are not here. Nobody keeps the answer."""
    try:
        file = blobs.local_path(digest).open("rb")
    except OSError:
        return responses.not_found_response("This machine does not have the file.")
    size = os.fstat(file.fileno()).st_size
    fields = {"Content-Type": "application/octet-stream", "Content-Length": str(size), "Cache-Control": "no-store"}
    return FileAnswer(file, headers=fields)


def wait_for_upload(
    request: HttpRequest, digest: str, holder: str, answer: Callable[[Blob], HttpResponseBase]
) -> HttpResponseBase:
    """Makes the client wait until another machine has uploaded the blob, then gives it that answer.

    Returns 503 at once if that machine is gone, or cannot upload anything now.
    """
    if seconds := _find_pause(holder):
        detail = "The one machine that has this file cannot upload it now."
        return responses.problem_response(503, detail, wait_seconds=seconds)

    def uploaded(_: HttpRequest, __: Content) -> HttpResponseBase:
        row = Blob.objects.filter(digest=digest).exclude(uploaded_at=None).first()
        return answer(row) if row else responses.not_now_response("The file is being moved.")

    work = uploads.upload_work(digest, holder)
    return deferral.deliver_or_defer(request, uploads.upload_content_key(digest), work, uploaded)


def _find_pause(holder: str) -> float | None:
    try:
        return held_files.find_holder(holder).pause_seconds
    except StoreUnavailable:  # clients that wait are told so
        return None


def _hand_to_nginx(address: str, known: Mapping[str, str]) -> HttpResponse:
    """Hands over to nginx. Leaves out or renames fields that nginx sets by itself."""
    fields = {name: value for name, value in known.items() if name not in {"Cache-Control", "Accept-Ranges"}}
    return HttpResponse(headers={**fields, CACHE_CONTROL_FIELD: known["Cache-Control"], "X-Accel-Redirect": address})


def _requested_range(request: HttpRequest, blob: Blob, known: Mapping[str, str]) -> ByteRange | None:
    """Returns the requested bytes; all behind nginx, which cuts ranges out of the whole answers that it keeps."""
    if responses.is_behind_nginx(request):
        return ByteRange(0, blob.size, blob.size)
    asked, condition = request.headers.get("Range", ""), request.headers.get("If-Range", "")
    return select_range(asked, condition, known["ETag"], blob.size)


def _range_answer(body: Iterator[bytes], wanted: ByteRange, known: Mapping[str, str]) -> HttpResponseBase:
    length = {"Content-Length": str(wanted.end - wanted.start)}
    if wanted.is_whole:
        return StreamingHttpResponse(body, headers={**known, **length})
    return StreamingHttpResponse(body, status=206, headers={**known, **length, "Content-Range": wanted.content_range})


def _out_of_range(blob: Blob) -> HttpResponse:
    answer = responses.problem_response(416, "The file is shorter than that.", cache_status="Tarry; hit; detail=stored")
    answer["Content-Range"] = f"bytes */{blob.size}"
    return answer


def _read_and_close(file: IO[bytes], wanted: ByteRange) -> Iterator[bytes]:
    with file:
        yield from blobs.read_pieces(file, wanted.start, wanted.end)


def _read_first_piece(body: Iterator[bytes]) -> Iterator[bytes]:
    """Returns the same pieces after reading the first: an error of the storage can still be answered as one."""
    first = next(body, b"")

    def whole() -> Iterator[bytes]:
        yield first
        yield from body

    return whole()
