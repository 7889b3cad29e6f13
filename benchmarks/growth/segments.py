"""Layers of more and more lines: loading them, finding the tiles of a change, painting the first tile."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

from benchmarks.figures import Figure, Note
from benchmarks.growth.charting import Chart, Curve
from benchmarks.growth.drawn import drawn
from resources.tiles.drawing import painting
from resources.tiles.marking import changing
from resources.tiles.marking.changing import Look
from resources.tiles.reading import compiling, speeds
from resources.tiles.reading.compiling import CompiledLayer
from resources.tiles.reading.geojson import Limits
from resources.tiles.sizing.density import densest_tiles
from resources.tiles.sizing.sides import scene_of
from resources.tiles.tile import Tile
from tests.resources.tiles import builders
from tests.resources.tiles.marking.comparing import with_speed

SIZES = (1_000, 10_000, 100_000, 1_000_000)
ZOOM = 13
LIMITS = Limits(max_bytes=1_000_000_000)
"""A million of them are 250 MB, more than a site takes by default."""
Result = TypeVar("Result")


def measure() -> Iterator[Figure | Note]:
    """CPU seconds of this process, on lines of five points in one city."""
    yield from drawn("segments", _charts)


def _charts() -> list[Chart]:
    loading, marking, first = [], [], []
    for size in SIZES:
        seconds, compiled = _took(partial(_loaded, builders.many_lines(size)))
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
    return compiling.compile_layer("lines", data, limits=LIMITS)


def _marked(compiled: CompiledLayer) -> None:
    before = speeds.read_speeds(compiled.speeds.data)
    changing.touched_by_speeds(compiled.geometry, before, with_speed(before, [77], 0.1), Look({}, 0, 18))


def _painted(compiled: CompiledLayer) -> None:
    scene = scene_of(compiled, {})
    [found] = densest_tiles(scene.positions(), [ZOOM])
    painting.paint(scene, Tile("bench", ZOOM, found.x, found.y))


def _took(work: Callable[[], Result]) -> tuple[float, Result]:
    began = time.process_time()
    result = work()
    return time.process_time() - began, result
