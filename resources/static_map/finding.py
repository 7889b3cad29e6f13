"""The layers that a static map shows."""

from resources.tiles import layers
from resources.tiles.layers import LayerView

from .picture import PictureError


def find_painted(slug: str) -> LayerView | None:
    """The layer, None if there is none. Raises PictureError for one that is not painted here, and DatabaseError."""
    layer = layers.layer_snapshot(slug)
    if layer is not None and layer.upstream is not None:
        raise PictureError(f"The layer “{slug}” has tiles of another server; static maps show painted layers only.")
    return layer
