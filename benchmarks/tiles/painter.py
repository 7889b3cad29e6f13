"""Tiles a second of painters: alone and in metatiles, their longest tile, their bytes; MapProxy beside them."""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from resources.tiles.data import compiler
from resources.tiles.data.compiler import CompiledLayer
from resources.tiles.grid_arrays import ColourSamples
from resources.tiles.metatiles import MetatileSizing, build_layer_scene, densest_tiles
from resources.tiles.render import painter
from resources.tiles.render.painter import AnyScene
from resources.tiles.styles import STROKE_PADDING_TILES
from resources.tiles.tile_address import Metatile, Tile, metatile_side
from resources.tiles.window import Window
from tests.support import geojson

from ..figures import Figure, Note
from ..peers import mapproxy
from . import metatiles

SEGMENTS = 100_000
ZOOMS = range(19)
SHOWN_ZOOMS = (8, 10, 13, 15)
SIDE = 8
RATIO_ZOOM, RATIO = 10, 4.0
LONGEST_SECONDS = 1.0
METATILE_SECONDS = 0.5
ROUNDS = 5


def measure() -> Iterator[Figure | Note]:
    """CPU time of painting 100,000 five-point lines of one city, by zoom; then the whole way of cold tiles."""
    compiled = compiler.compile_layer("lines", geojson.many_lines(SEGMENTS))
    began = time.process_time()
    compiled = MetatileSizing({}, ZOOMS[0], ZOOMS[-1], METATILE_SECONDS).size(compiled, time.process_time)
    yield Figure(f"measuring the metatiles of {SEGMENTS:,} lines", time.process_time() - began, "s")
    yield Note(f"sides by zoom: {compiled.metatiles}")
    work_seconds = metatiles.measure_work()
    yield Figure("a piece of work besides painting, CPU of the painter", work_seconds * 1000, "ms")
    scene = build_layer_scene(compiled, {})
    for zoom in SHOWN_ZOOMS:
        tiles = _metatile_tiles(scene, compiled, zoom, SIDE)
        yield from _throughput(scene, tiles, work_seconds)
        yield from _files(scene, tiles)
    yield from _longest(compiled)
    for zoom in (10, 13):
        yield from mapproxy.compare(scene, _metatile_tiles(scene, compiled, zoom, SIDE), SIDE)


def _metatile_tiles(scene: AnyScene, compiled: CompiledLayer, zoom: int, side: int) -> list[Tile]:
    """The tiles of the metatile around the densest one, which comes first."""
    [found] = densest_tiles(scene.positions(), [zoom])
    densest = Tile("bench", zoom, found.x, found.y)
    tiles = Metatile.around(densest, side).tiles(compiled.bounds, STROKE_PADDING_TILES)
    return sorted(tiles, key=lambda tile: tile != densest)


def _throughput(scene: AnyScene, tiles: Sequence[Tile], work_seconds: float) -> Iterator[Figure | Note]:
    """Tiles a second, one by one and as a metatile, and the ratio."""
    zoom = tiles[0].z
    painted = painter.paint_tiles(scene, tiles)
    shown = sum(body is not painter.encode_empty_tile(1, "png") for body in painted.values())
    at_once = _least_seconds(lambda: painter.paint_tiles(scene, tiles), ROUNDS)
    alone = [_least_seconds(partial(painter.paint_tile, scene, tile), 2) for tile in tiles]
    yield Note(f"zoom {zoom}: {len(tiles)} tiles within the bounds, {shown} of them show something")
    yield Figure(f"zoom {zoom}: the densest tile, tiles a second and core", 1 / alone[0])
    yield Figure(f"zoom {zoom}: one by one, tiles a second and core", len(tiles) / sum(alone))
    yield Figure(f"zoom {zoom}: {SIDE} × {SIDE} at once, tiles a second and core", len(tiles) / at_once)
    bound = RATIO if zoom == RATIO_ZOOM else None
    name = f"zoom {zoom}: metatile ÷ single, the densest tile ÷ a tile of its metatile"
    yield Figure(name, alone[0] / (at_once / len(tiles)), at_least=bound)
    whole = (sum(alone) + len(tiles) * work_seconds) / (at_once + work_seconds)
    yield Figure(f"zoom {zoom}: a piece of work for each of its tiles ÷ one for all", whole)


def _files(scene: AnyScene, tiles: Sequence[Tile]) -> Iterator[Figure]:
    """Bytes of the tiles that show something, and the time of encoding them."""
    zoom, window = tiles[0].z, Window.around(tiles)
    image = painter.draw_window(scene, window, zoom, 1)
    assert image is not None
    samples = np.asarray(image)
    boxes = [Window.of(tile).within(window) for tile in tiles]
    cut = [samples[top:bottom, left:right] for left, top, right, bottom in boxes]
    shown = [one for one in cut if one.any()]
    sizes, seconds = {}, {}
    for image_format in ("png", "webp"):
        files = [painter.encode_samples(one, scene.style.palette, image_format) for one in shown]
        sizes[image_format] = sum(map(len, files)) / len(files)
        encode = partial(_encode_all, shown, scene, image_format)
        seconds[image_format] = _least_seconds(encode, 2) / len(files)
        yield Figure(f"zoom {zoom}: a tile as {image_format.upper()}", sizes[image_format] / 1000, "KB")
        yield Figure(f"zoom {zoom}: encoding it", seconds[image_format] * 1000, "ms")
    yield Figure(f"zoom {zoom}: WebP ÷ PNG, bytes", sizes["webp"] / sizes["png"])
    yield Figure(f"zoom {zoom}: WebP ÷ PNG, time", seconds["webp"] / seconds["png"])


def _encode_all(samples: Sequence[ColourSamples], scene: AnyScene, image_format: str) -> None:
    for one in samples:
        painter.encode_samples(one, scene.style.palette, image_format)


def _longest(compiled: CompiledLayer) -> Iterator[Figure | Note]:
    """The first tile of a painter without the layer: data read, indexed and thinned, the metatile painted."""
    took = {}
    for zoom in ZOOMS:
        side = metatile_side(compiled.metatiles, zoom, 1)
        began = time.perf_counter()
        scene = build_layer_scene(compiled, {})
        [found] = densest_tiles(scene.positions(), [zoom])  # 10 ms that a painter does not need
        metatile = Metatile.around(Tile("bench", zoom, found.x, found.y), side)
        painter.paint_tiles(scene, metatile.tiles(compiled.bounds, STROKE_PADDING_TILES))
        took[zoom] = time.perf_counter() - began
    longest = max(took, key=lambda zoom: took[zoom])
    yield Note("first tile by zoom, ms: " + ", ".join(f"{zoom}: {took[zoom] * 1000:.0f}" for zoom in took))
    name = f"longest first tile of a painter at any zoom, its metatile with it (zoom {longest})"
    yield Figure(name, took[longest], "s", at_most=LONGEST_SECONDS)


def _least_seconds(work: Callable[[], object], rounds: int) -> float:
    """CPU seconds of the quickest of some rounds: disturbances only add."""
    least = float("inf")
    for _ in range(rounds):
        began = time.process_time()
        work()
        least = min(least, time.process_time() - began)
    return least
