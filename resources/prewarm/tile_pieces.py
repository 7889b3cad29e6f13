"""Pieces of work for tiles, of an area or of popular tiles, and the known costs of a layer's zooms.

Costs come from the grid, recorded durations, the tiles in the cache, and the traffic.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from redis.exceptions import RedisError

from retry import claims, contents, popularity, stores
from retry.errors import StoreUnavailable

from ..image_formats import DEFAULT_TILE_FORMAT
from ..tiles import layers, tile_address
from ..tiles.demand import load_popular_tiles
from ..tiles.layers import LayerView
from ..tiles.tile_address import Metatile, Tile
from ..tiles.work import tile_work
from . import area
from .area import TileCoverage
from .pieces import LayerCosts, Piece, WantedContent, WorkEstimate, ZoomCost, list_surroundings, take_slowest_lane


@dataclass(frozen=True, slots=True)
class TileVariant:
    """A variant of a place's tile: its scale and format."""

    scale: int = 1
    format: str = DEFAULT_TILE_FORMAT


def make_tile_piece(layer: LayerView, tile: Tile, requests: float = 0.0) -> Piece:
    """Returns the work that prepares a tile, with all tiles that it prepares."""
    return Piece(
        take_slowest_lane(tile_work(layer, tile)),
        tuple(
            WantedContent(each.content_key, each.path, layer.version_for(each.z, each.x, each.y))
            for each in _piece_tiles(layer, tile)
        ),
        layer.slug,
        tile.z,
        requests,
        layer.fresh_seconds + layer.stale_seconds,
    )


def area_pieces(slug: str, coverage: TileCoverage, variants: Iterable[TileVariant]) -> Iterator[Piece]:
    """Yields the pieces of an area of a layer, zoom by zoom. Ends when the layer is gone."""
    for zoom in coverage.zooms:
        for variant in variants:
            yield from _zoom_pieces(slug, coverage, zoom, variant)


def popular_pieces(most: int, coverages: Mapping[str, TileCoverage], least: float = 0.0) -> list[Piece]:
    """Returns the pieces of the most popular tiles in the layers' areas, with `least` requests or more each.

    Raises StoreUnavailable.
    """
    pieces: dict[str, tuple[LayerView, Tile]] = {}
    requests: dict[str, float] = defaultdict(float)
    beginning = (
        f"{tile_address.TILE_KIND}:{next(iter(coverages))}:" if len(coverages) == 1 else f"{tile_address.TILE_KIND}:"
    )
    for each in popularity.most_popular_contents(
        tile_address.TILE_KIND, most, beginning, lambda key: _find_covered_tile(key, coverages) is not None, least
    ):
        if found := _find_covered_tile(each.content_key, coverages):  # else its layer has just been deleted
            key = tile_work(*found).key
            pieces.setdefault(key, found)
            requests[key] += each.requests
    return [make_tile_piece(*found, requests[key]) for key, found in pieces.items()]


def surrounding_pieces(popular: Sequence[Piece], most: int) -> list[Piece]:
    """Returns the pieces around the most popular ones, at most `most`, with the requests that are expected of them.

    Those beside several have a share of the requests of each. None are popular themselves, and none are fetched: no
    tile server gets requests that no client has made.
    """
    known = {piece.work.key for piece in popular}
    places: dict[str, tuple[LayerView, Tile]] = {}
    requests: dict[str, float] = defaultdict(float)
    for piece in sorted(popular, key=lambda each: -each.requests)[:most]:
        for layer, tile, share in _list_nearby_tiles(piece):
            key = tile_work(layer, tile).key
            if key not in known:
                places.setdefault(key, (layer, tile))
                requests[key] += share * piece.requests
    ranked = sorted(places, key=lambda key: -requests[key])
    made = (make_tile_piece(*places[key], requests[key]) for key in ranked)
    return list(islice((piece for piece in made if piece.wanted), most))  # the others are outside the layer's bounds


def _list_nearby_tiles(piece: Piece) -> Iterator[tuple[LayerView, Tile, float]]:
    tile = Tile.of_key(piece.wanted[0].content_key) if piece.wanted else None
    layer = layers.layer_snapshot(tile.layer) if tile else None
    if tile is None or layer is None or layer.upstream:
        return
    metatile = Metatile.around(tile, layer.metatile_side(tile.z, tile.scale))
    side = metatile.side
    for near in list_surroundings(tile.z, metatile.x * side, metatile.y * side, side):
        if layer.has_zoom(near.z):
            yield layer, replace(tile, z=near.z, x=near.x, y=near.y), near.share


def piece_exists(piece: Piece) -> bool:
    """True if the piece's layer is enabled and has such tiles, and for every piece that is no layer's."""
    layer = layers.layer_snapshot(piece.group) if piece.zoom >= 0 else None
    return piece.zoom < 0 or (layer is not None and layer.has_zoom(piece.zoom))


def piece_side(layer: LayerView, zoom: int, variant: TileVariant) -> int:
    """Returns the width of a piece of work, in tiles."""
    return 1 if layer.upstream else min(layer.metatile_side(zoom, variant.scale), 1 << zoom)


def _zoom_pieces(slug: str, coverage: TileCoverage, zoom: int, variant: TileVariant) -> Iterator[Piece]:
    """Yields the pieces of a zoom. Begins anew if the metatiles' size changes: tiles already prepared are fresh."""
    side = _present_side(slug, zoom, variant)
    if not side:
        return
    for x, y in coverage.tiles(zoom, side):
        layer = layers.layer_snapshot(slug)  # half a second old at most: its version may be another by now
        if layer is None or _present_side(slug, zoom, variant) != side:
            yield from _zoom_pieces(slug, coverage, zoom, variant)
            return
        tile = Tile(slug, zoom, x * side, y * side, variant.scale, variant.format)
        piece = make_tile_piece(layer, tile)
        if piece.wanted:
            yield piece


def _present_side(slug: str, zoom: int, variant: TileVariant) -> int:
    """Returns the present width of a layer's pieces of work, in tiles; 0 if it has no such tiles."""
    layer = layers.layer_snapshot(slug)
    has_tiles = layer is not None and layer.has_zoom(zoom) and layer.has_scale(variant.scale)
    return piece_side(layer, zoom, variant) if layer and has_tiles else 0


def _piece_tiles(layer: LayerView, tile: Tile) -> list[Tile]:
    if layer.upstream:
        return [tile]
    metatile = Metatile.around(tile, layer.metatile_side(tile.z, tile.scale))
    return metatile.tiles(layer.bounds, layer.padding)


def _find_covered_tile(content_key: str, coverages: Mapping[str, TileCoverage]) -> tuple[LayerView, Tile] | None:
    """Returns the tile of a content key with its layer; None if the tile is not in the layer, or not in its area."""
    tile = Tile.of_key(content_key)
    layer = layers.layer_snapshot(tile.layer) if tile and tile.layer in coverages else None
    if tile is None or layer is None or not layer.has_zoom(tile.z) or not layer.has_scale(tile.scale):
        return None
    return (layer, tile) if coverages[tile.layer].holds(tile.z, tile.x, tile.y) else None


SAMPLED_TILES = 1000
"""The number of a layer's most popular tiles whose bytes are read."""


def load_costs(layer: LayerView, zooms: Collection[int], variant: TileVariant) -> LayerCosts:
    """Returns the known costs of the zooms. Raises StoreUnavailable."""
    tiles = {zoom: Tile(layer.slug, zoom, 0, 0, variant.scale, variant.format) for zoom in zooms}
    kinds = {tile_work(layer, tile).kind: zoom for zoom, tile in tiles.items()}
    seconds = {kinds[kind]: found for kind, found in claims.load_durations(kinds).items()}
    return LayerCosts(seconds, _mean_tile_bytes([tile for tile, _ in load_popular_tiles(layer.slug, SAMPLED_TILES)]))


def _mean_tile_bytes(tiles: list[Tile]) -> dict[int, float]:
    """Returns the mean by zoom, of the cached tiles. Empty tiles share one content and have no bytes of their own."""
    sizes: dict[int, list[int]] = defaultdict(list)
    for tile, (is_there, size) in zip(tiles, _stored_sizes([tile.content_key for tile in tiles]), strict=True):
        if is_there:
            sizes[tile.z].append(size)
    return {zoom: sum(found) / len(found) for zoom, found in sizes.items()}


def _stored_sizes(keys: list[str]) -> list[tuple[bool, int]]:
    try:
        with stores.fast_client("cache").pipeline(transaction=False) as pipeline:
            for key in keys:
                pipeline.exists(contents.content_name(key))
                pipeline.hstrlen(contents.content_name(key), "body")
            replies = pipeline.execute()
    except RedisError as error:
        raise StoreUnavailable(f"cache: {error}") from error
    return list(zip(map(bool, replies[::2]), replies[1::2], strict=True))


MAX_RANKED_TILES = 5000


def load_zoom_costs(layer: LayerView) -> list[ZoomCost]:
    """Returns the cost of each zoom, for tiles of one format. Raises StoreUnavailable."""
    zooms = range(layer.min_zoom, layer.max_zoom + 1)
    covered = TileCoverage(area.area_of_bounds(layer.bounds), zooms, layer.padding)
    known = load_costs(layer, zooms, TileVariant())
    shares = _request_shares(layer.slug)
    answers = popularity.load_hits_ever(
        f"{tile_address.TILE_KIND}{popularity.PARTS_SUFFIX}", [f"{layer.slug}/{zoom}" for zoom in zooms]
    )
    found = []
    for zoom, counted in zip(zooms, answers, strict=True):
        works = covered.count(zoom, piece_side(layer, zoom, TileVariant()))
        estimate = WorkEstimate.of(zoom, covered.count(zoom), works, known)
        requests = sum(counted.values())
        percents = [100 * counted[name] / requests if requests else None for name in ("hot", "waiting")]
        found.append(ZoomCost(zoom, estimate, shares.get(zoom, 0.0) if shares else None, round(requests), *percents))
    return found


def _request_shares(slug: str) -> dict[int, float]:
    """Returns by zoom the share of the requests for the most popular tiles, in percent; empty if nothing is known."""
    requests: dict[int, float] = defaultdict(float)
    for tile, number in load_popular_tiles(slug, MAX_RANKED_TILES):
        requests[tile.z] += number
    whole = sum(requests.values())
    return {zoom: 100 * number / whole for zoom, number in requests.items()} if whole else {}
