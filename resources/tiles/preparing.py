"""Prepares tiles: what a paint worker does for one piece of work."""

from collections.abc import Mapping

from retry import contents, errors

from . import tile
from .blocks import Block
from .drawing import painting
from .errors import UnknownLayerError
from .keeping import scenes
from .layers import LayerView

for _scale in (1, 2):  # in main as in the painters: what is shared is stored by its digest alone
    for _format in tile.TYPES:
        contents.share(painting.empty_tile(_scale, _format))


def empty_tile(wanted: tile.Tile) -> bytes:
    """The one file of all tiles that show nothing."""
    return painting.empty_tile(wanted.scale, wanted.format)


def paint_block(block: Block) -> Mapping[str, contents.Prepared]:
    """The block's tiles by their content keys, painted from the layer's newest data. Does not store them.

    Leaves out tiles that are outside of the layer's bounds: main knows without a look that they are empty.
    """
    try:
        layer, scene = scenes.load_scene(block.layer)
    except UnknownLayerError as error:
        raise errors.PreparationError("There is no such layer any more.", status=404) from error
    painted = painting.paint_all(scene, block.tiles(layer.bounds, layer.padding))
    return {painted_tile.content_key: _prepared(layer, painted_tile, body) for painted_tile, body in painted.items()}


def _prepared(layer: LayerView, painted: tile.Tile, body: bytes) -> contents.Prepared:
    return contents.Prepared(
        body=body,
        content_type=painted.content_type,
        fresh_seconds=layer.fresh_seconds,
        stale_seconds=layer.stale_seconds,
        client_seconds=layer.client_seconds,
        version=layer.version,
    )
