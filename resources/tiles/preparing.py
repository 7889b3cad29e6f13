"""Prepares tiles: what a paint worker does for one piece of work."""

from collections.abc import Mapping

from retry import contents, errors

from . import painting, scenes, tile
from .errors import UnknownLayerError

for _scale in (1, 2):  # in main as in the painters: what is shared is stored by its digest alone
    for _format in tile.TYPES:
        contents.share(painting.empty_tile(_scale, _format))


def empty_tile(wanted: tile.Tile) -> bytes:
    """The one file of all tiles that show nothing."""
    return painting.empty_tile(wanted.scale, wanted.format)


def paint_tile(wanted: tile.Tile) -> Mapping[str, contents.Prepared]:
    """The tile by its content key, painted from the layer's newest data. Does not store it."""
    try:
        layer, scene = scenes.load_scene(wanted.layer)
    except UnknownLayerError as error:
        raise errors.PreparationError("There is no such layer any more.", status=404) from error
    prepared = contents.Prepared(
        body=painting.paint(scene, wanted),
        content_type=wanted.content_type,
        fresh_seconds=layer.fresh_seconds,
        stale_seconds=layer.stale_seconds,
        client_seconds=layer.client_seconds,
        version=layer.version,
    )
    return {wanted.content_key: prepared}
