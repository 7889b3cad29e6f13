"""Thumbnails over HTTP: serves, defers, or says why there is none."""

from django.http import HttpRequest, HttpResponse

from resources import outages
from retry import connections, contents, methods, responses, serving
from retry.contents import Content
from retry.errors import StoreUnavailable
from retry.work import Work

from .. import conf
from ..contents.delivery import SAFE
from ..contents.errors import ThumbnailError
from ..contents.thumbnail import Thumbnail, check_size
from ..knowing.models import Blob
from ..storing import wishes
from ..storing.places import Held, whereabouts
from . import failures


@methods.read_only
@outages.told
def thumbnail(request: HttpRequest, digest: str, name: str) -> HttpResponse:
    """`/resources/<digest>/<w>x<h>.<webp|png|jpeg>?fit=contain|crop`

    The row is looked up for each request that nginx does not answer: what was taken down is gone at once.
    """
    try:
        wanted = Thumbnail.read(digest, name, dict(request.GET.lists()), conf.thumbnail_side())
        check_size(wanted, conf.thumbnail_sizes())
    except ThumbnailError as error:
        return responses.problem(400, str(error), cache_status="Tarry; fwd=bypass")
    return _answer(request, wanted)


def _answer(request: HttpRequest, wanted: Thumbnail) -> HttpResponse:
    blob = Blob.objects.filter(digest=wanted.digest).first()
    if blob is None:
        return responses.not_found("There is no such file.")
    if blob.taken_down_at is not None:
        return failures.gone()
    if refusal := _refusal(blob):
        return refusal
    place = whereabouts(blob)
    if isinstance(place, Held) and not _is_painted(wanted):
        return _uploaded_first(request, wanted, place.holder)
    response = serving.serve_or_defer(request, wanted.content_key, paint_work(wanted, blob))
    if response.status_code in (200, 304):
        for field, value in SAFE.items():
            response[field] = value
    return response


def _is_painted(wanted: Thumbnail) -> bool:
    """Whether it may be in the cache: a painter need not read the file."""
    try:
        return connections.run(contents.read(wanted.content_key, with_body=False)) is not None
    except StoreUnavailable:
        return True  # then it is told as of any content


def _uploaded_first(request: HttpRequest, wanted: Thumbnail, holder: str) -> HttpResponse:
    """The machine that has the file uploads it while the client waits: painters are on any machine."""

    def paint(request: HttpRequest, _: Content) -> HttpResponse:
        is_there = Blob.objects.filter(digest=wanted.digest).exclude(uploaded_at=None).exists()
        return _answer(request, wanted) if is_there else responses.not_now("The file is being moved.")

    key, work = wishes.content_key(wanted.digest), wishes.upload_work(wanted.digest, holder)
    return serving.deliver_or_defer(request, key, work, paint)


def paint_work(wanted: Thumbnail, blob: Blob) -> Work:
    """The work of painting it."""
    pixels = (blob.width or 0) * (blob.height or 0)
    return Work(
        key=wanted.content_key,
        kind=f"thumbnail:{pixels.bit_length()}",  # images up to twice as large take about as long
        lane="paint.now",
        refresh_lane="paint.refresh",
        task="resources.paint_thumbnail",
        arguments=(wanted.digest, wanted.width, wanted.height, wanted.format, wanted.fit),
    )


def _refusal(blob: Blob) -> HttpResponse | None:
    """Why there is no thumbnail, as far as the row tells it."""
    if blob.width is None or blob.height is None:
        return _refused(415, f"There are thumbnails of images. This file is {blob.media_type}, or a broken image.")
    if blob.width * blob.height > conf.thumbnail_pixels():
        return _refused(422, f"The image has {blob.width:,} × {blob.height:,} pixels: too many for a thumbnail.")
    if blob.size > conf.thumbnail_bytes():
        return _refused(422, f"The image has {blob.size:,} bytes: too many for a thumbnail.")
    return None


def _refused(status: int, detail: str) -> HttpResponse:
    return responses.problem(status, detail, cache_status="Tarry; fwd=bypass")
