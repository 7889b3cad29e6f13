"""Pieces of work for tiles: the blocks of a layer, those of an area, those that are popular."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from resources.tiles import asking, layers
from resources.tiles.blocks import Block
from resources.tiles.layers import LayerView
from resources.tiles.tile import Tile
from resources.tiles.works import work_for
from retry import popularity

from .coverage import Coverage
from .pieces import Piece, Wanted

LANES = {"paint": "paint.warm", "fetch": "fetch.warm"}
"""The slowest lane, by what lanes begin with."""


@dataclass(frozen=True, slots=True)
class Variant:
    """Which of a place's tiles: their scale and format."""

    scale: int = 1
    format: str = "png"


def piece_of(layer: LayerView, tile: Tile, requests: float = 0.0) -> Piece:
    """The work that prepares a tile, with all tiles that come out of it."""
    work = work_for(layer, tile)
    lane = LANES[work.lane.partition(".")[0]]
    return Piece(
        replace(work, lane=lane, refresh_lane=lane),
        tuple(_wanted(layer, each) for each in _tiles_of(layer, tile)),
        layer.slug,
        tile.z,
        requests,
    )


def covered(slug: str, coverage: Coverage, variants: Iterable[Variant]) -> Iterator[Piece]:
    """The pieces of an area of a layer, zoom by zoom. Ends when the layer is gone."""
    for zoom in coverage.zooms:
        for variant in variants:
            yield from _covered_zoom(slug, coverage, zoom, variant)


def popular(most: int, coverages: Mapping[str, Coverage]) -> list[Piece]:
    """The pieces of the most popular of the tiles that lie in the layers' areas. Raises StoreUnavailable."""
    pieces: dict[str, tuple[LayerView, Tile]] = {}
    requests: dict[str, float] = defaultdict(float)
    beginning = f"{asking.KIND}:{next(iter(coverages))}:" if len(coverages) == 1 else f"{asking.KIND}:"
    for each in popularity.most_popular(asking.KIND, most, beginning, lambda key: _meant(key, coverages) is not None):
        if found := _meant(each.content_key, coverages):  # else its layer has just been deleted
            key = work_for(*found).key
            pieces.setdefault(key, found)
            requests[key] += each.requests
    return [piece_of(*found, requests[key]) for key, found in pieces.items()]


def is_there(piece: Piece) -> bool:
    """Whether its layer has such tiles, if it is a layer's: of those that are switched on."""
    layer = layers.layer_snapshot(piece.group) if piece.zoom >= 0 else None
    return piece.zoom < 0 or (layer is not None and layer.has_zoom(piece.zoom))


def tile_of(content_key: str) -> Tile | None:
    """The tile of a content key; None for what is no tile's."""
    address = asking.address_of(content_key)
    return Tile.parse(address.removeprefix(asking.BEGINNING)) if address else None


def side_of(layer: LayerView, zoom: int, variant: Variant) -> int:
    """How many tiles wide a piece of work is."""
    return 1 if layer.upstream else min(layer.block_side(zoom, variant.scale), 1 << zoom)


def _covered_zoom(slug: str, coverage: Coverage, zoom: int, variant: Variant) -> Iterator[Piece]:
    """Begins anew where the layer gets blocks of another size meanwhile: what was prepared is fresh."""
    side = _side_now(slug, zoom, variant)
    if not side:
        return
    for x, y in coverage.tiles(zoom, side):
        layer = layers.layer_snapshot(slug)  # half a second old at most: its version may be another by now
        if layer is None or _side_now(slug, zoom, variant) != side:
            yield from _covered_zoom(slug, coverage, zoom, variant)
            return
        tile = Tile(slug, zoom, x * side, y * side, variant.scale, variant.format)
        piece = piece_of(layer, tile)
        if piece.wanted:
            yield piece


def _side_now(slug: str, zoom: int, variant: Variant) -> int:
    """How many tiles wide a layer's pieces of work are at the moment; 0 where it has no such tiles."""
    layer = layers.layer_snapshot(slug)
    has_tiles = layer is not None and layer.has_zoom(zoom) and layer.has_scale(variant.scale)
    return side_of(layer, zoom, variant) if layer and has_tiles else 0


def _tiles_of(layer: LayerView, tile: Tile) -> list[Tile]:
    if layer.upstream:
        return [tile]
    block = Block.around(tile, layer.block_side(tile.z, tile.scale))
    return block.tiles(layer.bounds, layer.padding)


def _wanted(layer: LayerView, tile: Tile) -> Wanted:
    key = tile.content_key
    address = asking.address_of(key)
    assert address is not None
    return Wanted(key, address, layer.version_for(tile.z, tile.x, tile.y))


def _meant(content_key: str, coverages: Mapping[str, Coverage]) -> tuple[LayerView, Tile] | None:
    """The tile of a content key, with its layer; None for what is not there, or not in the layer's area."""
    tile = tile_of(content_key)
    layer = layers.layer_snapshot(tile.layer) if tile and tile.layer in coverages else None
    if tile is None or layer is None or not layer.has_zoom(tile.z) or not layer.has_scale(tile.scale):
        return None
    return (layer, tile) if coverages[tile.layer].holds(tile.z, tile.x, tile.y) else None
