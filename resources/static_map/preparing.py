"""Prepares static maps: what a paint worker does for one of them."""

from collections.abc import Mapping

from resources.tiles.errors import UnknownLayerError
from resources.tiles.keeping import scenes
from resources.tiles.layers import joint_version
from retry import contents, errors

from .composing import compose
from .picture import Picture


def paint_picture(picture: Picture) -> Mapping[str, contents.Prepared]:
    """The picture by its content key, painted from its layers' newest data. Does not store it."""
    try:
        layers, painted = zip(*(scenes.load_scene(slug) for slug in picture.layers), strict=True)
    except UnknownLayerError as error:
        raise errors.PreparationError("One of the layers is no more.", status=404) from error
    clients = [layer.client_seconds for layer in layers]
    prepared = contents.Prepared(
        body=compose(picture, painted),
        content_type=picture.content_type,
        fresh_seconds=min(layer.fresh_seconds for layer in layers),
        stale_seconds=min(layer.stale_seconds for layer in layers),
        client_seconds=None if None in clients else min(clients),
        version=joint_version(layers),
    )
    return {picture.content_key: prepared}
