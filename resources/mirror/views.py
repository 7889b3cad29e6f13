"""Mirrored files and their thumbnails over HTTP: by digest, or by a URL that this site has signed.

Thumbnails are served, deferred, or refused with a reason; `paint_thumbnail` prepares one in a paint worker.
"""

from datetime import UTC, datetime
from functools import partial

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from retry import contents, deferral, responses, stores
from retry.contents import Content
from retry.errors import StoreUnavailable
from retry.work import Work

from .. import database
from ..prewarm.pieces import Piece, WantedContent, take_slowest_lane
from . import delivery, hosts, links, lookup
from .canonical.urls import candidate_digests, canonicalise_url, find_surest_digest
from .delivery import deliver_blob
from .errors import ForgedError, MirrorError, ThumbnailError
from .ingest import wanted_urls
from .ingest.wanted_urls import WantedUrl, mirror_work, url_content_key
from .media.thumbnails import THUMBNAIL_KIND, Thumbnail, check_thumbnail_size
from .models import Blob
from .public_files import BY_CHANGING_URL, BY_DIGEST, BY_URL, SAFE_HEADERS, CachePolicy
from .reports.classify import has_file
from .storage import held_files
from .storage.uploads import OnOtherMachine, locate_blob
from .url_rules import current_rules

NO_SUCH_FILE = "There is no such file."


@responses.read_only
@database.answer_outages
def serve_by_digest(request: HttpRequest, digest: str) -> HttpResponseBase:
    """Serves `/resources/<digest>`: the bytes with that SHA-256, for good."""
    blob = Blob.objects.filter(digest=digest).first()
    return deliver_blob(request, blob, BY_DIGEST) if blob else responses.not_found_response(NO_SUCH_FILE)


@responses.read_only
@database.answer_outages
def serve_by_url(request: HttpRequest, signature: str, encoded: str) -> HttpResponseBase:
    """Serves `/resources/<signature>/<URL>`: the URL's file, or a redirect to the waiting instance during the fetch.

    A URL that failed is tried again after its pause. A file that may have changed at its origin is served as it is,
    while a fetcher looks.
    """
    try:
        url = links.verify_address(signature, encoded)
        digests, host = candidate_digests(url, current_rules()), canonicalise_url(url, current_rules()).host
    except MirrorError as error:
        return _refusal_response(403 if isinstance(error, ForgedError) else 400, str(error))
    found = lookup.look_up_urls(digests)
    digest = find_surest_digest(digests, found, has_file)
    now = datetime.now(UTC)
    known = wanted_urls.renew_status(WantedUrl(digest, url, host, None, now), found.get(digest), now)
    # Also while the URL is fetched again, or if the blob was taken down.
    blob = Blob.objects.filter(digest=known.blob_digest).first() if known and known.blob_digest else None
    if blob:
        return deliver_blob(request, blob, _policy_of_host(host))
    if known and (refusal := delivery.failure_response(known, now)):
        return refusal
    deliver = partial(_deliver_fetched, host)
    return deferral.deliver_or_defer(request, url_content_key(digest), mirror_work(url, digest), deliver)


def _policy_of_host(host: str) -> CachePolicy:
    return BY_CHANGING_URL if hosts.is_rechecked(host) else BY_URL


def _deliver_fetched(host: str, request: HttpRequest, content: Content) -> HttpResponseBase:
    """Delivers a file of the host that was fetched a moment ago: the content is its digest."""
    blob = Blob.objects.filter(digest=content.body.decode(errors="replace")).first()
    if blob is None:
        return responses.not_now_response("The file was removed after it was stored.")
    return deliver_blob(request, blob, _policy_of_host(host))


@responses.read_only
def serve_held(request: HttpRequest, digest: str, until: int, signature: str) -> HttpResponseBase:
    """Serves `/held/…` to another machine of this site: bytes that only this one has. Looks up no row: that one has."""
    try:
        is_signed = held_files.is_held_signed(digest, until, signature, held_files.find_holder(settings.MACHINE).now)
    except StoreUnavailable:
        return responses.not_now_response("A part of this site does not answer now.")
    if not is_signed:
        return _refusal_response(403, "No machine of this site has signed this, or not lately.")
    return delivery.held_response(digest)


@responses.read_only
def answer_missing(request: HttpRequest, address: str) -> HttpResponse:
    """Answers all other addresses with this beginning."""
    return responses.not_found_response(NO_SUCH_FILE)


@responses.read_only
@database.answer_outages
def serve_thumbnail(request: HttpRequest, digest: str, name: str) -> HttpResponseBase:
    """Serves `/resources/<digest>/<w>x<h>.<webp|png|jpeg>?fit=contain|crop`.

    Looks the row up for each request that nginx does not answer: a file that was taken down is gone at once.
    """
    try:
        wanted = Thumbnail.read(digest, name, dict(request.GET.lists()), settings.THUMBNAIL_MAX_SIDE)
        check_thumbnail_size(wanted, settings.THUMBNAIL_SIZES)
    except ThumbnailError as error:
        return _refusal_response(400, str(error))
    return _answer_thumbnail(request, wanted)


def _answer_thumbnail(request: HttpRequest, wanted: Thumbnail) -> HttpResponseBase:
    blob = Blob.objects.filter(digest=wanted.digest).first()
    if blob is None:
        return responses.not_found_response(NO_SUCH_FILE)
    if blob.taken_down_at is not None:
        return delivery.gone_response()
    if refusal := _refuse_thumbnail(blob):
        return refusal
    place = locate_blob(blob)
    if isinstance(place, OnOtherMachine) and not _is_painted(wanted):
        # Painters are on any machine.
        return delivery.wait_for_upload(
            request, wanted.digest, place.holder, lambda _: _answer_thumbnail(request, wanted)
        )
    response = deferral.serve_or_defer(request, wanted.content_key, thumbnail_work(wanted, blob))
    if response.status_code in (200, 304):
        for field, value in SAFE_HEADERS.items():
            response[field] = value
    return response


def _is_painted(wanted: Thumbnail) -> bool:
    """True if the thumbnail may be in the cache, so that no painter has to read the file."""
    try:
        return stores.run_steps(contents.read_content(wanted.content_key, with_body=False)) is not None
    except StoreUnavailable:
        return True  # serve_or_defer then answers for the outage


def thumbnail_work(wanted: Thumbnail, blob: Blob) -> Work:
    pixels = (blob.width or 0) * (blob.height or 0)
    return Work(
        key=wanted.content_key,
        kind=f"thumbnail:{pixels.bit_length()}",  # images up to twice as large take about as long
        lane="paint.now",
        refresh_lane="paint.refresh",
        task="resources.paint_thumbnail",
        arguments=(wanted.digest, wanted.width, wanted.height, wanted.format, wanted.fit),
    )


def warm_thumbnail(counted_key: str, requests: float) -> Piece | None:
    """Returns the piece for a popular thumbnail; None if clients would not get it, or its file is elsewhere yet."""
    wanted = Thumbnail.of_key(counted_key)
    blob = Blob.objects.filter(digest=wanted.digest, taken_down_at=None).first() if wanted else None
    if wanted is None or blob is None or not _is_paintable(wanted, blob):
        return None
    content = WantedContent(wanted.content_key, wanted.path, 0)
    return Piece(take_slowest_lane(thumbnail_work(wanted, blob)), (content,), THUMBNAIL_KIND, requests=requests)


def _is_paintable(wanted: Thumbnail, blob: Blob) -> bool:
    try:
        check_thumbnail_size(wanted, settings.THUMBNAIL_SIZES)
    except ThumbnailError:
        return False
    is_too_large = max(wanted.width, wanted.height) > settings.THUMBNAIL_MAX_SIDE
    return not (is_too_large or _refuse_thumbnail(blob) or isinstance(locate_blob(blob), OnOtherMachine))


def _refuse_thumbnail(blob: Blob) -> HttpResponse | None:
    """Returns the reason for no thumbnail, as far as the row tells it."""
    if blob.width is None or blob.height is None:
        detail = f"There are thumbnails of images. This file is {blob.media_type}, or a broken image."
        return _refusal_response(415, detail)
    if blob.width * blob.height > settings.THUMBNAIL_MAX_PIXELS:
        detail = f"The image has {blob.width:,} × {blob.height:,} pixels: too many for a thumbnail."
        return _refusal_response(422, detail)
    if blob.size > settings.THUMBNAIL_MAX_BYTES:
        return _refusal_response(422, f"The image has {blob.size:,} bytes: too many for a thumbnail.")
    return None


def _refusal_response(status: int, detail: str) -> HttpResponse:
    return responses.problem_response(status, detail, cache_status="Tarry; fwd=bypass")
