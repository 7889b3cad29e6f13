"""What is known of a layer's cost: recorded durations, and the bytes of those of its tiles that are in the cache."""

from collections import defaultdict
from collections.abc import Collection, Iterable

from redis.exceptions import RedisError

from resources.tiles import asking
from resources.tiles.layers import LayerView
from resources.tiles.tile import Tile
from resources.tiles.works import work_for
from retry import connections, contents, durations, popularity
from retry.errors import StoreUnavailable

from .estimating import Costs
from .tiles import Variant, tile_of

SAMPLED_TILES = 1000
"""The bytes of so many of a layer's most popular tiles are looked at."""


def costs(layer: LayerView, zooms: Collection[int], variant: Variant) -> Costs:
    """Raises StoreUnavailable."""
    tiles = {zoom: Tile(layer.slug, zoom, 0, 0, variant.scale, variant.format) for zoom in zooms}
    kinds = {work_for(layer, tile).kind: zoom for zoom, tile in tiles.items()}
    seconds = {kinds[kind]: found for kind, found in durations.recorded(kinds).items()}
    popular = popularity.most_popular(asking.KIND, SAMPLED_TILES, f"{asking.KIND}:{layer.slug}:")
    return Costs(seconds, _tile_bytes(each.content_key for each in popular))


def _tile_bytes(keys: Iterable[str]) -> dict[int, float]:
    """The mean by zoom, of those that are there. Empty tiles are kept once for all: they have none of their own."""
    tiles = [(key, tile) for key in keys if (tile := tile_of(key))]
    sizes: dict[int, list[int]] = defaultdict(list)
    for (_, tile), (is_there, size) in zip(tiles, _sizes([key for key, _ in tiles]), strict=True):
        if is_there:
            sizes[tile.z].append(size)
    return {zoom: sum(found) / len(found) for zoom, found in sizes.items()}


def _sizes(keys: list[str]) -> list[tuple[bool, int]]:
    try:
        with connections.client("cache").pipeline(transaction=False) as pipeline:
            for key in keys:
                pipeline.exists(contents.content_name(key))
                pipeline.hstrlen(contents.content_name(key), "body")
            replies = pipeline.execute()
    except RedisError as error:
        raise StoreUnavailable(f"cache: {error}") from error
    return list(zip(map(bool, replies[::2]), replies[1::2], strict=True))
