"""Preparing all of a real layer: tiles a second and core in the pieces of work that pre-warming has, and one by one."""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

from benchmarks import pieces
from benchmarks.figures import Figure, Note
from benchmarks.peers import mapproxy_seed
from benchmarks.peers.installing import MissingError
from resources.demo import layers
from resources.tiles.blocks import Block, side_at
from resources.tiles.drawing import painting
from resources.tiles.drawing.building import AnyScene
from resources.tiles.reading import compiling
from resources.tiles.reading.compiling import CompiledLayer
from resources.tiles.sizing.sides import Sizing, scene_of
from resources.tiles.styling.style import padding
from resources.tiles.tile import Tile
from resources.warming import coverage
from resources.warming.coverage import Coverage

LAYER = "countries"
ZOOMS = range(11)
BLOCK_SECONDS = 0.5
SAMPLED = 50
"""So many blocks of a zoom are painted, by lot; they stand for all of it."""

LOOKED_AT = 20_000
PEER_ZOOMS, PEER_SIDE = range(7), 8


def measure() -> Iterator[Figure | Note]:
    """CPU time of zooms 0 to 10, from a sample of each."""
    [demo] = [each for each in layers.LAYERS if each.slug == LAYER]
    style: dict[str, Any] = demo.fields.get("style", {})
    compiled = compiling.compile_layer(demo.kind, (layers.DATA / demo.file).read_bytes())
    compiled = Sizing(style, ZOOMS[0], ZOOMS[-1], BLOCK_SECONDS).size(compiled, time.process_time)
    scene, around = scene_of(compiled, style), padding(demo.kind, style)
    covered = Coverage(coverage.of_bounds(compiled.bounds), ZOOMS, around)
    tiles, works, at_once, alone = 0, 0, 0.0, 0.0
    for zoom in ZOOMS:
        number, side = covered.count(zoom), side_at(compiled.metatiles, zoom, 1)
        sample = [Block(LAYER, zoom, x, y, min(side, 1 << zoom)) for x, y in _lot(covered, zoom, side)]
        shown = [block.tiles(compiled.bounds, around) for block in sample]
        share = number / sum(map(len, shown))
        tiles, works = tiles + number, works + covered.count(zoom, side)
        at_once += share * sum(_seconds(partial(painting.paint_all, scene, each)) for each in shown)
        alone += share * sum(_seconds(partial(_one_by_one, scene, each)) for each in shown)
    yield Note(f"{LAYER}, zoom {ZOOMS[0]} to {ZOOMS[-1]}: {tiles:,} tiles, {SAMPLED} blocks of each zoom painted")
    yield Figure("in the pieces of work of pre-warming, tiles a second and core", tiles / at_once)
    yield Figure("one by one, tiles a second and core", tiles / alone)
    yield Figure("pieces of work ÷ one by one, painting alone", alone / at_once)
    work_seconds = pieces.measure_work()
    yield Figure("a piece of work besides painting, CPU of the painter", work_seconds * 1000, "ms")
    whole = (alone + tiles * work_seconds) / (at_once + works * work_seconds)
    yield Figure("with all that a piece of work takes: pieces of work ÷ one by one", whole)
    painted = Covered(scene, compiled, Coverage(covered.area, PEER_ZOOMS, around))
    yield from painted.beside_mapproxy(work_seconds)


@dataclass(frozen=True, slots=True)
class Covered:
    """A layer, and which of its tiles are prepared."""

    scene: AnyScene
    compiled: CompiledLayer
    coverage: Coverage

    def beside_mapproxy(self, work_seconds: float) -> Iterator[Figure | Note]:
        """All tiles, from the data to files of their own, here and by MapProxy's seeding tool."""
        blocks = [block for zoom in PEER_ZOOMS for block in self.blocks(zoom)]
        shown = [block.tiles(self.compiled.bounds, self.coverage.padding) for block in blocks]
        ours = sum(_seconds(partial(painting.paint_all, self.scene, each)) for each in shown)
        try:
            kept, theirs = mapproxy_seed.seed(self.scene, self.compiled.bounds.as_list(), PEER_ZOOMS, PEER_SIDE)
        except MissingError as missing:
            yield Note(f"MapProxy is missing: {missing}")
            return
        tiles = sum(map(len, shown))
        yield Note(f"zoom {PEER_ZOOMS[0]} to {PEER_ZOOMS[-1]}: {tiles:,} tiles here, {kept:,} by MapProxy")
        rate = tiles / (ours + len(blocks) * work_seconds)
        yield Figure("those zooms with all that a piece of work takes, tiles a second and core", rate)
        yield Figure("by MapProxy's seeding tool and an equal source, tiles a second and core", kept / theirs)
        yield Figure("ours ÷ MapProxy's", rate / (kept / theirs))

    def blocks(self, zoom: int) -> Iterator[Block]:
        side = side_at(self.compiled.metatiles, zoom, 1)
        return (Block(LAYER, zoom, x, y, min(side, 1 << zoom)) for x, y in self.coverage.tiles(zoom, side))


def _lot(covered: Coverage, zoom: int, side: int) -> Sequence[tuple[int, int]]:
    """Some blocks of the zoom, always the same."""
    known = list(islice(covered.tiles(zoom, side), LOOKED_AT))
    return random.Random(zoom).sample(known, min(SAMPLED, len(known)))


def _one_by_one(scene: AnyScene, tiles: Sequence[Tile]) -> None:
    for tile in tiles:
        painting.paint(scene, tile)


def _seconds(work: Callable[[], object]) -> float:
    """CPU time."""
    began = time.process_time()
    work()
    return time.process_time() - began
