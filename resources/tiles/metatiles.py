"""Chooses the width of a layer's metatiles by measuring their cost where the layer is densest. PURE.

At low zooms drawing is most of the cost and grows with the metatile; at high zooms the overhead of a piece of
work is, and the tiles of a metatile share it. The clock is passed in.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from . import grid, grid_arrays
from .data.compiler import CompiledLayer
from .grid_arrays import Floats
from .render import painter
from .render.painter import AnyScene
from .styles import style_padding
from .tile_address import METATILE_SIDES, Metatile, Tile
from .window import Window

MAX_SAMPLES = 100_000
"""Positions that are looked at, taken at even distances."""


@dataclass(frozen=True, slots=True)
class DensestTile:
    """The tile of a zoom with the most positions, and its share of them."""

    zoom: int
    x: int
    y: int
    share: float


def densest_tiles(positions: Floats, zooms: Sequence[int]) -> Iterator[DensestTile]:
    """Yields the tile of each zoom with the most positions (unit mercator).

    Positions count, not lengths: a long straight line has few.
    """
    sampled = positions[:: max(1, -(-len(positions) // MAX_SAMPLES))]
    cells = np.clip(np.mod(sampled, [1.0, np.inf]), 0.0, np.nextafter(1.0, 0.0)) * float(1 << grid.MAX_ZOOM)
    keys = np.sort(grid_arrays.tile_keys(*cells.astype(np.int64).T))  # those of one tile of any zoom are neighbours
    for zoom in zooms:
        tiles = keys >> 2 * (grid.MAX_ZOOM - zoom)
        starts = np.flatnonzero(np.diff(tiles, prepend=-1))
        numbers = np.diff(starts, append=len(tiles))
        x, y = grid_arrays.key_places(tiles[starts[[numbers.argmax()]]])
        yield DensestTile(zoom, int(x[0]), int(y[0]), float(numbers.max() / len(tiles)))


Clock = Callable[[], float]

WORK_OVERHEAD_SECONDS = 0.005
"""The cost of a piece of work besides painting: its message and claim, the layer's row, storing, its end."""

MIN_GAIN_SHARE = 0.2
"""A larger side is taken when it saves this share of a tile's time."""

CHEAP_TILE_SECONDS = 0.003
"""If the densest tile costs no more, and metatiles pay, deeper zooms are not measured: they take over the side."""

ALONE_SHARE = 0.9
"""A tile with more than this share of a layer is painted alone: it has nothing to share with others."""

MAX_MEASURING_SECONDS = 0.3
MAX_MEASURING_SECONDS_PER_POSITION = 1e-5
"""After this time the remaining zooms take over the last side, or the one that is surely within the bound."""


@dataclass(frozen=True, slots=True)
class MetatileCost:
    """The cost of a metatile: seconds to paint all of it, and the number of its tiles that show something."""

    seconds: float
    shown: int

    @property
    def seconds_per_tile(self) -> float:
        return (self.seconds + WORK_OVERHEAD_SECONDS) / max(1, self.shown)


def choose_side(costs: Mapping[int, MetatileCost], bound_seconds: float) -> int:
    """Returns the largest side whose metatile is painted within the bound and saves enough against half the side.

    Ends at the first side that was not measured or does not save enough.
    """
    chosen = 1
    for side in METATILE_SIDES[1:]:
        cost = costs.get(side)
        if cost is None or cost.seconds > bound_seconds:
            break
        if cost.seconds_per_tile > (1 - MIN_GAIN_SHARE) * costs[chosen].seconds_per_tile:
            break
        chosen = side
    return chosen


def measure_sides(
    scene: AnyScene, bounds: grid.Bounds, padding: float, zooms: Sequence[int], *, bound_seconds: float, clock: Clock
) -> dict[int, int]:
    """Returns the sides of the metatiles by zoom, each measured where the layer is densest.

    A zoom that is left out takes over the side of the one before it.
    """
    positions = scene.positions()
    ends = clock() + MAX_MEASURING_SECONDS + MAX_MEASURING_SECONDS_PER_POSITION * len(positions)
    sides: dict[int, int] = {}
    for densest in densest_tiles(positions, zooms):
        tile = Tile("measured", densest.zoom, densest.x, densest.y)
        around = [Metatile.around(tile, side) for side in METATILE_SIDES]
        shown = [metatile.tiles(bounds, padding) or [tile] for metatile in around]
        if densest.share > ALONE_SHARE or len(shown[-1]) == 1:
            sides[tile.z] = 1
            continue
        costs = dict(_measure_costs(scene, shown, bound_seconds, clock, ends))
        sides[tile.z] = choose_side(costs, bound_seconds)
        if costs[1].seconds <= CHEAP_TILE_SECONDS and _cost_decided(sides[tile.z], costs):
            break
        if clock() >= ends and tile.z + 1 in zooms:
            sides[tile.z + 1] = _safe_side(sides[tile.z], costs[1].seconds, bound_seconds)
            break
    return sides


def _cost_decided(side: int, costs: Mapping[int, MetatileCost]) -> bool:
    """True if the cost decided this side: neither the time ran out, nor has a larger metatile no more to show."""
    return side == METATILE_SIDES[-1] or (side > 1 and 2 * side in costs and costs[2 * side].shown > costs[side].shown)


def _safe_side(side: int, seconds: float, bound_seconds: float) -> int:
    """Returns the largest side up to this one that keeps the bound even if all tiles are as dense."""
    return max((each for each in METATILE_SIDES if each <= side and each**2 * seconds <= bound_seconds), default=1)


def _measure_costs(
    scene: AnyScene, shown: Sequence[Sequence[Tile]], bound_seconds: float, clock: Clock, ends: float
) -> Iterator[tuple[int, MetatileCost]]:
    """Yields the costs of ever larger metatiles while they may still be chosen and there is time until `ends`."""
    tile = shown[0][0]
    painter.paint_tile(scene, tile)  # thinning happens once per zoom: it is no cost of the metatile
    began = clock()
    painter.paint_tile(scene, tile)
    costs = {1: MetatileCost(clock() - began, 1)}
    encoding_seconds = max(0.0, costs[1].seconds - _drawing_cost(scene, [tile], clock).seconds)
    yield 1, costs[1]
    for (before, side), tiles in zip(pairwise(METATILE_SIDES), shown[1:], strict=True):
        if choose_side(costs, bound_seconds) != before or clock() >= ends:
            return
        costs[side] = _with_encoding(_drawing_cost(scene, tiles, clock), encoding_seconds)
        if choose_side(costs, bound_seconds) != side:  # perhaps geometry was thinned for the first time
            again = _with_encoding(_drawing_cost(scene, tiles, clock), encoding_seconds)
            costs[side] = min(costs[side], again, key=lambda cost: cost.seconds)
        yield side, costs[side]


def _with_encoding(drawn: MetatileCost, encoding_seconds: float) -> MetatileCost:
    return MetatileCost(drawn.seconds + drawn.shown * encoding_seconds, drawn.shown)


def _drawing_cost(scene: AnyScene, tiles: Sequence[Tile], clock: Clock) -> MetatileCost:
    """Measures the cost of drawing a metatile, without encoding it."""
    began = clock()
    window = Window.around(tiles)
    image = painter.draw_window(scene, window, tiles[0].z, tiles[0].scale)
    if image is None:
        return MetatileCost(clock() - began, 0)
    samples = np.asarray(image)
    boxes = [Window.of(tile).within(window) for tile in tiles]
    shown = sum(bool(samples[top:bottom, left:right].any()) for left, top, right, bottom in boxes)
    return MetatileCost(clock() - began, shown)


@dataclass(frozen=True, slots=True)
class MetatileSizing:
    """The input for measuring the sides. A bound of 0 stands for no metatiles: nothing is measured."""

    style: Mapping[str, Any]
    min_zoom: int
    max_zoom: int
    bound_seconds: float

    def size(self, compiled: CompiledLayer, clock: Clock) -> CompiledLayer:
        """Returns the layer with its sides. Raises LayerError for a style that does not fit its kind."""
        if self.bound_seconds <= 0:
            return compiled
        sides = measure_sides(
            build_layer_scene(compiled, self.style),
            compiled.bounds,
            style_padding(compiled.kind, self.style),
            range(self.min_zoom, self.max_zoom + 1),
            bound_seconds=self.bound_seconds,
            clock=clock,
        )
        return replace(compiled, metatiles=sides)


def build_layer_scene(compiled: CompiledLayer, style: Mapping[str, Any]) -> AnyScene:
    """Builds the painters' scene of the layer. Raises LayerError for a style that does not fit its kind."""
    kind = compiled.kind
    return painter.build_scene(kind, painter.read_ground(kind, compiled.geometry), compiled.speeds.data, style)
