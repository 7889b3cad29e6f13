"""Removes tiles from the cache that are served to nobody any more: of layers that are gone, or have no such tile."""

from collections.abc import Mapping
from itertools import islice

from redis.exceptions import RedisError

from resources.tiles import asking, grid, layers
from resources.tiles.layers import LayerView
from resources.tiles.tile import Tile
from retry import connections, contents
from retry.errors import StoreUnavailable

from .tiles import tile_of

TOGETHER = 500


def prune(*, dry_run: bool) -> tuple[int, int]:
    """How many tiles were in the cache, and how many of them were removed, or would be. Raises StoreUnavailable."""
    client = connections.patient_client("cache")
    known = removed = 0
    try:
        names = client.scan_iter(match=contents.content_name(f"{asking.KIND}:*"), count=1000)
        while some := list(islice(names, TOGETHER)):
            known += len(some)
            useless = _useless(some)
            removed += len(useless)
            if useless and not dry_run:
                client.unlink(*useless)
    except RedisError as error:
        raise StoreUnavailable(f"cache: {error}") from error
    return known, removed


def _useless(names: list[bytes]) -> list[bytes]:
    known = {layer.slug: layer for layer in layers.layers_snapshot()}
    beginning = len(contents.content_name(""))
    return [name for name in names if not _exists(known, tile_of(name.decode()[beginning:]))]


def _exists(known: Mapping[str, LayerView], tile: Tile | None) -> bool:
    layer = known.get(tile.layer) if tile else None
    if tile is None or layer is None or not layer.has_zoom(tile.z) or not layer.has_scale(tile.scale):
        return False
    return grid.touches(layer.bounds, tile.z, tile.x, tile.y, layer.padding)
