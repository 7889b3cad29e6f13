"""Preparing all of a real layer: tiles a second and core in the pieces of work that pre-warming has, and one by one."""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

from resources.demo import demo_layers
from resources.prewarm import area
from resources.prewarm.area import TileCoverage
from resources.tiles.data import compiler
from resources.tiles.data.compiler import CompiledLayer
from resources.tiles.metatiles import MetatileSizing, build_layer_scene
from resources.tiles.render import painter
from resources.tiles.render.painter import AnyScene
from resources.tiles.styles import style_padding
from resources.tiles.tile_address import Metatile, Tile, metatile_side

from ..figures import Figure, Note
from ..peers import mapproxy_seed
from ..peers.installation import MissingError
from . import metatiles

LAYER = "countries"
ZOOMS = range(11)
METATILE_SECONDS = 0.5
SAMPLED = 50
"""The number of metatiles of a zoom that are painted, chosen at random; they stand for all of them."""

LOOKED_AT = 20_000
PEER_ZOOMS, PEER_SIDE = range(7), 8


def measure() -> Iterator[Figure | Note]:
    """CPU time of zooms 0 to 10, from a sample of each."""
    [demo] = [each for each in demo_layers.DEMO_LAYERS if each.slug == LAYER]
    style: dict[str, Any] = demo.fields.get("style", {})
    compiled = compiler.compile_layer(demo.kind, (demo_layers.DATA_FOLDER / demo.file).read_bytes())
    compiled = MetatileSizing(style, ZOOMS[0], ZOOMS[-1], METATILE_SECONDS).size(compiled, time.process_time)
    scene, around = build_layer_scene(compiled, style), style_padding(demo.kind, style)
    covered = TileCoverage(area.area_of_bounds(compiled.bounds), ZOOMS, around)
    tiles, works, at_once, alone = 0, 0, 0.0, 0.0
    for zoom in ZOOMS:
        number, side = covered.count(zoom), metatile_side(compiled.metatiles, zoom, 1)
        sample = [Metatile(LAYER, zoom, x, y, min(side, 1 << zoom)) for x, y in _lot(covered, zoom, side)]
        shown = [metatile.tiles(compiled.bounds, around) for metatile in sample]
        share = number / sum(map(len, shown))
        tiles, works = tiles + number, works + covered.count(zoom, side)
        at_once += share * sum(_seconds(partial(painter.paint_tiles, scene, each)) for each in shown)
        alone += share * sum(_seconds(partial(_one_by_one, scene, each)) for each in shown)
    yield Note(f"{LAYER}, zoom {ZOOMS[0]} to {ZOOMS[-1]}: {tiles:,} tiles, {SAMPLED} metatiles of each zoom painted")
    yield Figure("in the pieces of work of pre-warming, tiles a second and core", tiles / at_once)
    yield Figure("one by one, tiles a second and core", tiles / alone)
    yield Figure("pieces of work ÷ one by one, painting alone", alone / at_once)
    work_seconds = metatiles.measure_work()
    yield Figure("a piece of work besides painting, CPU of the painter", work_seconds * 1000, "ms")
    whole = (alone + tiles * work_seconds) / (at_once + works * work_seconds)
    yield Figure("with all that a piece of work takes: pieces of work ÷ one by one", whole)
    painted = Covered(scene, compiled, TileCoverage(covered.area, PEER_ZOOMS, around))
    yield from painted.beside_mapproxy(work_seconds)


@dataclass(frozen=True, slots=True)
class Covered:
    """A layer, and which of its tiles are prepared."""

    scene: AnyScene
    compiled: CompiledLayer
    coverage: TileCoverage

    def beside_mapproxy(self, work_seconds: float) -> Iterator[Figure | Note]:
        """All tiles, from the data to files of their own, here and by MapProxy's seeding tool."""
        pieces = [metatile for zoom in PEER_ZOOMS for metatile in self.metatiles(zoom)]
        shown = [metatile.tiles(self.compiled.bounds, self.coverage.padding) for metatile in pieces]
        ours = sum(_seconds(partial(painter.paint_tiles, self.scene, each)) for each in shown)
        try:
            kept, theirs = mapproxy_seed.seed(self.scene, self.compiled.bounds.as_list(), PEER_ZOOMS, PEER_SIDE)
        except MissingError as missing:
            yield Note(f"MapProxy is missing: {missing}")
            return
        tiles = sum(map(len, shown))
        yield Note(f"zoom {PEER_ZOOMS[0]} to {PEER_ZOOMS[-1]}: {tiles:,} tiles here, {kept:,} by MapProxy")
        rate = tiles / (ours + len(pieces) * work_seconds)
        yield Figure("those zooms with all that a piece of work takes, tiles a second and core", rate)
        yield Figure("by MapProxy's seeding tool and an equal source, tiles a second and core", kept / theirs)
        yield Figure("ours ÷ MapProxy's", rate / (kept / theirs))

    def metatiles(self, zoom: int) -> Iterator[Metatile]:
        side = metatile_side(self.compiled.metatiles, zoom, 1)
        return (Metatile(LAYER, zoom, x, y, min(side, 1 << zoom)) for x, y in self.coverage.tiles(zoom, side))


def _lot(covered: TileCoverage, zoom: int, side: int) -> Sequence[tuple[int, int]]:
    """Some metatiles of the zoom, always the same."""
    known = list(islice(covered.tiles(zoom, side), LOOKED_AT))
    return random.Random(zoom).sample(known, min(SAMPLED, len(known)))


def _one_by_one(scene: AnyScene, tiles: Sequence[Tile]) -> None:
    for tile in tiles:
        painter.paint_tile(scene, tile)


def _seconds(work: Callable[[], object]) -> float:
    """CPU time."""
    began = time.process_time()
    work()
    return time.process_time() - began
