"""The work that prepares a tile: painting its block, or fetching it from another server."""

from resources.upstream.work import fetch_work
from retry.work import Work

from .blocks import Block
from .layers import LayerView
from .tile import Tile


def work_for(layer: LayerView, wanted: Tile) -> Work:
    if layer.upstream:
        return fetch_work(layer.upstream, wanted, layer.version_for(wanted.z, wanted.x, wanted.y))
    return paint_work(layer, wanted)


def paint_work(layer: LayerView, wanted: Tile) -> Work:
    """The work of painting a tile's block from the layer's present data: all tiles of the block share it."""
    block = Block.around(wanted, layer.block_side(wanted.z, wanted.scale))
    return Work(
        key=block.work_key(layer.version_for(block.z, block.x, block.y, side=block.side)),
        kind=block.kind,
        lane="paint.now",
        refresh_lane="paint.refresh",
        task="resources.paint_block",
        arguments=(block.layer, block.z, block.x, block.y, block.side, block.scale, block.format),
    )
