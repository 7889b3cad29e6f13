"""Makes tiles of a layer stale: all of them, or those of a part. Paints nothing."""

from functools import partial

from django.db import transaction

from resources.models import Layer

from .. import refreshing
from ..errors import UnknownLayerError
from ..expirations import Part


def expire(slug: str, part: Part | None = None) -> Layer:
    """The layer under a new version. Its tiles are served once more while they are painted anew.

    Raises UnknownLayerError.
    """
    with transaction.atomic():
        layer = Layer.objects.select_for_update().filter(slug=slug).first()
        if layer is None:
            raise UnknownLayerError(f"There is no layer “{slug}”.")
        layer.expire(part)
        transaction.on_commit(partial(refreshing.refresh_soon, slug, layer.version), robust=True)
    return layer
