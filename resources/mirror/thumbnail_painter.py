"""Prepares thumbnails in a paint worker."""

from collections.abc import Mapping

from django.conf import settings

from retry import deferral, metrics
from retry.contents import Prepared
from retry.errors import PreparationError

from ..sandbox import ChildAllowance
from .errors import StorageError, UnreadableImageError
from .media.pictures import ThumbnailBox
from .media.thumbnail_process import PaintedTooLongError, PainterLostError, ThumbnailPainter
from .media.thumbnails import Thumbnail
from .models import Blob
from .storage import blobs, uploads
from .storage.uploads import OnOtherMachine, locate_blob

DAY_SECONDS = 86_400
THUMBNAIL_FRESH_SECONDS, THUMBNAIL_STALE_SECONDS = 30 * DAY_SECONDS, 30 * DAY_SECONDS
"""Bytes of a digest never change. A file that was taken down is not served, even if its thumbnail is fresh."""
REFUSED_RETRY_SECONDS = 3600
"""A refused image does not change, but the limits may."""
UPLOAD_RETRY_SECONDS = 2

PAINTER = ThumbnailPainter()


def paint_thumbnail(thumbnail: Thumbnail) -> Mapping[str, Prepared]:
    """Paints a thumbnail; returns it by its content key. Does not store it. Raises PreparationError."""
    blob = Blob.objects.filter(digest=thumbnail.digest, taken_down_at=None).first()
    if blob is None:
        raise PreparationError("The file no longer exists.", status=404)
    body = _paint_image(blob, thumbnail)
    return {
        thumbnail.content_key: Prepared(body, thumbnail.content_type, THUMBNAIL_FRESH_SECONDS, THUMBNAIL_STALE_SECONDS)
    }


def _paint_image(blob: Blob, thumbnail: Thumbnail) -> bytes:
    box = ThumbnailBox(thumbnail.width, thumbnail.height, thumbnail.fit, thumbnail.format)
    allowance = ChildAllowance(settings.THUMBNAIL_MEMORY_BYTES, settings.THUMBNAIL_SECONDS)
    try:
        with blobs.open_blob(blob) as image:
            return PAINTER.paint(box, image, blob.size, settings.THUMBNAIL_MAX_PIXELS, allowance)
    except FileNotFoundError as error:
        raise PreparationError(_explain_missing(blob), status=503, retry_seconds=UPLOAD_RETRY_SECONDS) from error
    except StorageError as error:
        raise PreparationError("The file cannot be read now.", status=503) from error
    except PainterLostError as error:
        is_late = isinstance(error, PaintedTooLongError)
        metrics.count_lost_child("thumbnail", "too long" if is_late else "died")
        status = 504 if is_late else 502
        raise PreparationError(f"The image {error}", status=status, retry_seconds=REFUSED_RETRY_SECONDS) from error
    except UnreadableImageError as error:
        raise PreparationError(f"The image {error}", retry_seconds=REFUSED_RETRY_SECONDS) from error


def _explain_missing(blob: Blob) -> str:
    """Returns in words why there are no bytes. Requests their upload if another machine alone has them."""
    place = locate_blob(blob)
    if not isinstance(place, OnOtherMachine):
        return "The file is missing from the storage."
    deferral.find_answer(uploads.upload_content_key(blob.digest), uploads.upload_work(blob.digest, place.holder), 0)
    return "The file is still on another machine, which uploads it now."
