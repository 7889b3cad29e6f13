"""Prepares thumbnails: what a paint worker does for one of them."""

from collections.abc import Mapping

from resources.apart import Allowance
from retry import observing, serving
from retry.contents import Prepared
from retry.errors import PreparationError

from .. import conf
from ..contents.errors import ImageError
from ..contents.pictures import Box
from ..contents.thumbnail import Thumbnail
from ..errors import StorageError
from ..knowing.models import Blob
from ..storing import blobs, wishes
from ..storing.places import Held, whereabouts
from .apart import LostError, Order, Painter, TooLongError

DAY_SECONDS = 86_400
FRESH_SECONDS, STALE_SECONDS = 30 * DAY_SECONDS, 30 * DAY_SECONDS
"""Bytes of a digest never change. What was taken down is not served, however fresh it is."""
REFUSED_SECONDS = 3600
"""An image that is refused stays what it is; its limits may change."""
ELSEWHERE_SECONDS = 2

PAINTER = Painter()


def paint_thumbnail(thumbnail: Thumbnail) -> Mapping[str, Prepared]:
    """The thumbnail by its content key. Does not store it. Raises PreparationError."""
    blob = Blob.objects.filter(digest=thumbnail.digest, taken_down_at=None).first()
    if blob is None:
        raise PreparationError("There is no such file any more.", status=404)
    body = _painted(blob, thumbnail)
    return {thumbnail.content_key: Prepared(body, thumbnail.content_type, FRESH_SECONDS, STALE_SECONDS)}


def _painted(blob: Blob, thumbnail: Thumbnail) -> bytes:
    box = Box(thumbnail.width, thumbnail.height, thumbnail.fit, thumbnail.format)
    allowance = Allowance(conf.thumbnail_memory(), conf.thumbnail_seconds())
    try:
        with blobs.open_blob(blob) as image:
            return PAINTER.paint(Order(box, conf.thumbnail_pixels(), blob.size), image, allowance)
    except FileNotFoundError as error:
        raise PreparationError(_not_here(blob), status=503, retry_seconds=ELSEWHERE_SECONDS) from error
    except StorageError as error:
        raise PreparationError("The file cannot be read now.", status=503) from error
    except LostError as error:
        is_late = isinstance(error, TooLongError)
        observing.child_lost("thumbnail", "too long" if is_late else "died")
        status = 504 if is_late else 502
        raise PreparationError(f"The image {error}", status=status, retry_seconds=REFUSED_SECONDS) from error
    except ImageError as error:
        raise PreparationError(f"The image {error}", retry_seconds=REFUSED_SECONDS) from error


def _not_here(blob: Blob) -> str:
    """Why there are no bytes, in words. A machine that alone has them is asked to upload them."""
    place = whereabouts(blob)
    if not isinstance(place, Held):
        return "The file is not where it should be."
    serving.find_answer(wishes.content_key(blob.digest), wishes.upload_work(blob.digest, place.holder), 0)
    return "The file is still on another machine, which uploads it now."
