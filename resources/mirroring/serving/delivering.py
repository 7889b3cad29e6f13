"""How the bytes of a blob come to the client: from main, from nginx, from the bucket, or after a wait. Looks no row up.

What is asked for by its digest, and is a file, nginx is offered to serve without asking again (storing/links.py). Till
then, and of the rest, small ones come from main, and nginx keeps them as it keeps all content; large ones nginx reads
by itself (X-Accel-Redirect). Without nginx, which says `X-Front`, Django streams them.
"""

import logging
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from django.http import FileResponse, HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase

from retry import headers, responses, serving
from retry.conf import conf as retry_conf
from retry.contents import Content

from .. import conf
from ..contents.delivery import SAFE
from ..errors import StorageError
from ..knowing.models import Blob
from ..storing import links, remote, wishes
from ..storing.places import Held, Here, Lost, Stored, whereabouts
from . import failures, ranges
from .fields import Caching, fields

FILES, BUCKET = "/delivered/here/", "/delivered/bucket/"
"""nginx' internal locations. See nginx/delivered.conf."""
LINK = "X-Bucket-Link"
CONTROL = "X-Delivered-Cache-Control"
"""nginx would add a Cache-Control of its own to one that main sends along with a hand-over."""

_log = logging.getLogger("tarry.mirroring")


class FileAnswer(FileResponse):
    """A file, sent by the server's own means. Its type is not guessed from anything."""

    def set_headers(self, filelike: Any) -> None:
        """All fields were given."""


def deliver(request: HttpRequest, blob: Blob, caching: Caching) -> HttpResponseBase:
    """The blob, or why it cannot be had. GET or HEAD."""
    if blob.taken_down_at is not None:
        return failures.gone()
    place = whereabouts(blob)
    modified = place.modified if isinstance(place, Here) else blob.stored_at
    known = fields(blob.media_type, blob.digest, modified, caching, retry_conf().HOT_SECONDS)
    if isinstance(place, Here) and caching.is_for_good and _is_fronted(request):
        links.offer(blob, place.path)
    if other := _unchanged(request, modified, known):
        return other
    match place:
        case Here(path) if _is_fronted(request) and blob.size > conf.hot_bytes():
            return _handed(f"{FILES}{blob.digest[:2]}/{blob.digest[2:4]}/{blob.digest}", known)
        case Here(path):
            return _file(request, blob, path, known)
        case Stored(name):
            return _stored(request, blob, name, known)
        case Held(holder):
            return _deferred(request, blob, caching, holder)
        case Lost():
            _log.error("a blob is not where its row says", extra={"digest": blob.digest})
            return responses.not_now("The file is not where it should be.")


def _is_fronted(request: HttpRequest) -> bool:
    """Whether nginx passes this request on: it says so of each."""
    return "X-Front" in request.headers


def _unchanged(request: HttpRequest, modified: datetime, known: Mapping[str, str]) -> HttpResponse | None:
    """304 or 412 by the client's validators; None to send the bytes."""
    probe = HttpResponse(headers=known)
    answer = responses.conditional(request, probe, int(modified.timestamp()))
    if answer is probe:
        return None
    for name in SAFE if answer.status_code == 304 else ():
        answer[name] = known[name]
    return answer


def _file(request: HttpRequest, blob: Blob, path: Path, known: Mapping[str, str]) -> HttpResponseBase:
    try:
        file = path.open("rb")
    except OSError as error:
        _log.error("a blob cannot be read", extra={"digest": blob.digest, "error": str(error)})
        return responses.not_now("The file cannot be read now.")
    wanted = _span(request, blob, known)
    if wanted is None:
        file.close()
        return _out_of_range(blob)
    if wanted.is_whole:
        return FileAnswer(file, headers={**known, "Content-Length": str(blob.size)})
    return _part(_closing(file, wanted), wanted, known)


def _stored(request: HttpRequest, blob: Blob, name: str, known: Mapping[str, str]) -> HttpResponseBase:
    """From the storage: by a link that it answers itself, which nginx follows or the client."""
    link = remote.signed_link(name, known["Content-Type"], known["Content-Disposition"])
    if link and not conf.is_proxied():
        return _redirected(link)
    if link and _is_fronted(request):
        return _handed(f"{BUCKET}{blob.digest}", {**known, LINK: link})
    wanted = _span(request, blob, known)
    if wanted is None:
        return _out_of_range(blob)
    try:
        body = _begun(remote.stream(name, wanted.start, wanted.end)) if blob.size else iter(())
    except (StorageError, FileNotFoundError) as error:
        _log.error("a blob cannot be read", extra={"digest": blob.digest, "error": str(error)})
        return responses.not_now("The storage does not answer now.")
    return _part(body, wanted, known)


def _redirected(link: str) -> HttpResponse:
    """302 to the bucket. Nobody keeps it: the link ends, and so may the file."""
    return HttpResponse(status=302, headers={**headers.uncached("Tarry; fwd=bypass; detail=bucket"), "Location": link})


def _deferred(request: HttpRequest, blob: Blob, caching: Caching, holder: str) -> HttpResponseBase:
    """Another machine has it, and uploads it now."""

    def uploaded(request: HttpRequest, _: Content) -> HttpResponseBase:
        row = Blob.objects.filter(digest=blob.digest).exclude(uploaded_at=None).first()
        return deliver(request, row, caching) if row else responses.not_now("The file is being moved.")

    work = wishes.upload_work(blob.digest, holder)
    return serving.deliver_or_defer(request, wishes.content_key(blob.digest), work, uploaded)


def _handed(address: str, known: Mapping[str, str]) -> HttpResponse:
    """nginx goes on with it. What it takes over by itself is not told in the same words."""
    told = {name: value for name, value in known.items() if name not in {"Cache-Control", "Accept-Ranges"}}
    return HttpResponse(headers={**told, CONTROL: known["Cache-Control"], "X-Accel-Redirect": address})


def _span(request: HttpRequest, blob: Blob, known: Mapping[str, str]) -> ranges.Span | None:
    """nginx cuts ranges out of whole answers, which it keeps."""
    if _is_fronted(request):
        return ranges.Span(0, blob.size, blob.size)
    asked, condition = request.headers.get("Range", ""), request.headers.get("If-Range", "")
    return ranges.span(asked, condition, known["ETag"], blob.size)


def _part(body: Iterator[bytes], wanted: ranges.Span, known: Mapping[str, str]) -> HttpResponseBase:
    length = {"Content-Length": str(wanted.end - wanted.start)}
    if wanted.is_whole:
        return StreamingHttpResponse(body, headers={**known, **length})
    return StreamingHttpResponse(body, status=206, headers={**known, **length, "Content-Range": wanted.content_range})


def _out_of_range(blob: Blob) -> HttpResponse:
    answer = responses.problem(416, "The file is shorter than that.", cache_status="Tarry; hit; detail=stored")
    answer["Content-Range"] = f"bytes */{blob.size}"
    return answer


def _closing(file: IO[bytes], wanted: ranges.Span) -> Iterator[bytes]:
    with file:
        yield from remote.pieces(file, wanted.start, wanted.end)


def _begun(body: Iterator[bytes]) -> Iterator[bytes]:
    """The same, with its first piece read: an error of the storage is still told as such."""
    first = next(body, b"")

    def whole() -> Iterator[bytes]:
        yield first
        yield from body

    return whole()
