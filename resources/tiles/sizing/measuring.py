"""Measures what blocks of a layer cost to paint, and chooses their sides. PURE: the clock is passed in.

At low zooms drawing is most of the cost and grows with the block; at high zooms the piece of work
itself is, and a block shares it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from .. import grid
from ..blocks import SIDES, Block
from ..drawing import painting
from ..drawing.building import AnyScene
from ..tile import Tile
from ..window import Window
from .density import densest_tiles

Clock = Callable[[], float]

WORK_SECONDS = 0.005
"""What a piece of work costs besides painting: its message and claim, the layer's row, storing, its end."""

GAIN = 0.2
"""A larger side is taken when it saves this share of a tile's time."""

NEXT_TO_NOTHING_SECONDS = 0.003
"""When the densest tile costs no more, and blocks pay, larger zooms are not measured: they take over the side."""

ALONE_SHARE = 0.9
"""A tile that has more than this of a layer is painted alone: there is nothing to share with others."""

MEASURING_SECONDS = 0.3
MEASURING_SECONDS_PER_POSITION = 1e-5
"""After so long, zooms that are left take over the side of the last one, or what is within the bound for sure."""


@dataclass(frozen=True, slots=True)
class Extent:
    """Where a layer is, and how far beyond it is drawn, in tiles."""

    bounds: grid.Bounds
    padding: float


@dataclass(frozen=True, slots=True)
class Cost:
    """What a block costs: seconds to paint all of it, and how many of its tiles show something."""

    seconds: float
    shown: int

    @property
    def seconds_per_tile(self) -> float:
        return (self.seconds + WORK_SECONDS) / max(1, self.shown)


def choose_side(costs: Mapping[int, Cost], bound_seconds: float) -> int:
    """The largest side whose block is painted within the bound and saves enough against half the side.

    Ends at the first side that was not measured or does not.
    """
    chosen = 1
    for side in SIDES[1:]:
        cost = costs.get(side)
        if cost is None or cost.seconds > bound_seconds:
            break
        if cost.seconds_per_tile > (1 - GAIN) * costs[chosen].seconds_per_tile:
            break
        chosen = side
    return chosen


def measure_sides(
    scene: AnyScene, extent: Extent, zooms: Sequence[int], bound_seconds: float, clock: Clock
) -> dict[int, int]:
    """The sides of the blocks by zoom, each measured where the layer is densest.

    A zoom that is left out takes over the side of the one before it.
    """
    positions = scene.positions()
    ends = clock() + MEASURING_SECONDS + MEASURING_SECONDS_PER_POSITION * len(positions)
    sides: dict[int, int] = {}
    for densest in densest_tiles(positions, zooms):
        tile = Tile("measured", densest.zoom, densest.x, densest.y)
        blocks = [_tiles(tile, side, extent) for side in SIDES]
        if densest.share > ALONE_SHARE or len(blocks[-1]) == 1:
            sides[tile.z] = 1
            continue
        costs = dict(_costs(scene, blocks, bound_seconds, clock, ends))
        sides[tile.z] = choose_side(costs, bound_seconds)
        if costs[1].seconds <= NEXT_TO_NOTHING_SECONDS and _settled(sides[tile.z], costs):
            break
        if clock() >= ends and tile.z + 1 in zooms:
            sides[tile.z + 1] = _surely(sides[tile.z], costs[1].seconds, bound_seconds)
            break
    return sides


def _settled(side: int, costs: Mapping[int, Cost]) -> bool:
    """Whether it was the cost that ended at this side, and not the time, nor that there is no more to show."""
    return side == SIDES[-1] or (side > 1 and 2 * side in costs and costs[2 * side].shown > costs[side].shown)


def _surely(side: int, seconds: float, bound_seconds: float) -> int:
    """The side up to this one whose block is painted within the bound even if all of its tiles are as dense."""
    return max((each for each in SIDES if each <= side and each**2 * seconds <= bound_seconds), default=1)


def _costs(
    scene: AnyScene, blocks: Sequence[Sequence[Tile]], bound_seconds: float, clock: Clock, ends: float
) -> Iterator[tuple[int, Cost]]:
    """The costs of larger and larger blocks, as far as they may still be chosen, and there is time until `ends`."""
    tile = blocks[0][0]
    painting.paint(scene, tile)  # what is thinned once per zoom is not the block's
    began = clock()
    painting.paint(scene, tile)
    costs = {1: Cost(clock() - began, 1)}
    encoding_seconds = max(0.0, costs[1].seconds - _drawn(scene, [tile], clock).seconds)
    yield 1, costs[1]
    for (before, side), tiles in zip(pairwise(SIDES), blocks[1:], strict=True):
        if choose_side(costs, bound_seconds) != before or clock() >= ends:
            return
        costs[side] = _with_encoding(_drawn(scene, tiles, clock), encoding_seconds)
        if choose_side(costs, bound_seconds) != side:  # perhaps something was thinned for the first time
            again = _with_encoding(_drawn(scene, tiles, clock), encoding_seconds)
            costs[side] = min(costs[side], again, key=lambda cost: cost.seconds)
        yield side, costs[side]


def _with_encoding(drawn: Cost, encoding_seconds: float) -> Cost:
    return Cost(drawn.seconds + drawn.shown * encoding_seconds, drawn.shown)


def _drawn(scene: AnyScene, tiles: Sequence[Tile], clock: Clock) -> Cost:
    """What drawing a block costs, without encoding it."""
    began = clock()
    window = Window.around(tiles)
    image = painting.draw(scene, window, tiles[0].z, tiles[0].scale)
    if image is None:
        return Cost(clock() - began, 0)
    samples = np.asarray(image)
    boxes = [Window.of(tile).within(window) for tile in tiles]
    shown = sum(bool(samples[top:bottom, left:right].any()) for left, top, right, bottom in boxes)
    return Cost(clock() - began, shown)


def _tiles(tile: Tile, side: int, extent: Extent) -> list[Tile]:
    return Block.around(tile, side).tiles(extent.bounds, extent.padding) or [tile]
