"""Layers of more and more lines: loading them, finding the tiles of a change, painting the first tile."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

from resources.tiles.data import compiler, speeds
from resources.tiles.data.compiler import CompiledLayer
from resources.tiles.data.limits import LayerLimits
from resources.tiles.diff import changes
from resources.tiles.diff.changes import LayerLook
from resources.tiles.metatiles import build_layer_scene, densest_tiles
from resources.tiles.render import painter
from resources.tiles.tile_address import Tile
from tests.support import geojson
from tests.support.picture_comparison import with_speed

from ..figures import Figure, Note
from .curve_chart import Chart, Curve
from .drawn import drawn

SIZES = (1_000, 10_000, 100_000, 1_000_000)
ZOOM = 13
LIMITS = LayerLimits(max_bytes=1_000_000_000)
"""A million of them are 250 MB, more than a site takes by default."""
Result = TypeVar("Result")


def measure() -> Iterator[Figure | Note]:
    """CPU seconds of this process, on lines of five points in one city."""
    yield from drawn("segments", _charts)


def _charts() -> list[Chart]:
    loading, marking, first = [], [], []
    for size in SIZES:
        seconds, compiled = _took(partial(_loaded, geojson.many_lines(size)))
        loading.append((size, seconds))
        marking.append((size, _took(partial(_marked, compiled))[0]))
        first.append((size, _took(partial(_painted, compiled))[0]))
    curves = [
        Curve("load: read, checked and compiled", loading),
        Curve(f"paint: the first tile of a painter, zoom {ZOOM}, where it is densest", first),
        Curve("mark: the tiles of one changed segment, all zooms", marking),
    ]
    return [Chart("A layer of lines, CPU", "segments", "s", curves)]


def _loaded(data: bytes) -> CompiledLayer:
    return compiler.compile_layer("lines", data, limits=LIMITS)


def _marked(compiled: CompiledLayer) -> None:
    before = speeds.read_speeds(compiled.speeds.data)
    changes.tiles_changed_by_speeds(compiled.geometry, before, with_speed(before, [77], 0.1), LayerLook({}, 0, 18))


def _painted(compiled: CompiledLayer) -> None:
    scene = build_layer_scene(compiled, {})
    [found] = densest_tiles(scene.positions(), [ZOOM])
    painter.paint_tile(scene, Tile("bench", ZOOM, found.x, found.y))


def _took(work: Callable[[], Result]) -> tuple[float, Result]:
    began = time.process_time()
    result = work()
    return time.process_time() - began, result
