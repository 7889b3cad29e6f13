"""What painters do in a second: tiles alone and in blocks, their longest tile, their bytes; MapProxy beside them."""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from benchmarks import pieces
from benchmarks.figures import Figure, Note
from benchmarks.peers import mapproxy
from resources.tiles.arrays import Samples
from resources.tiles.blocks import Block, side_at
from resources.tiles.drawing import encoding, painting
from resources.tiles.drawing.building import AnyScene
from resources.tiles.reading import compiling
from resources.tiles.reading.compiling import CompiledLayer
from resources.tiles.sizing.density import densest_tiles
from resources.tiles.sizing.sides import Sizing, scene_of
from resources.tiles.styling.style import STROKE_PADDING
from resources.tiles.tile import Tile
from resources.tiles.window import Window
from tests.resources.tiles import builders

SEGMENTS = 100_000
ZOOMS = range(19)
SHOWN_ZOOMS = (8, 10, 13, 15)
SIDE = 8
RATIO_ZOOM, RATIO = 10, 4.0
LONGEST_SECONDS = 1.0
BLOCK_SECONDS = 0.5
ROUNDS = 5


def measure() -> Iterator[Figure | Note]:
    """CPU time of painting 100,000 five-point lines of one city, by zoom; then the whole way of cold tiles."""
    compiled = compiling.compile_layer("lines", builders.many_lines(SEGMENTS))
    began = time.process_time()
    compiled = Sizing({}, ZOOMS[0], ZOOMS[-1], BLOCK_SECONDS).size(compiled, time.process_time)
    yield Figure(f"measuring the blocks of {SEGMENTS:,} lines", time.process_time() - began, "s")
    yield Note(f"sides by zoom: {compiled.metatiles}")
    work_seconds = pieces.measure_work()
    yield Figure("a piece of work besides painting, CPU of the painter", work_seconds * 1000, "ms")
    scene = scene_of(compiled, {})
    for zoom in SHOWN_ZOOMS:
        tiles = _block(scene, compiled, zoom, SIDE)
        yield from _throughput(scene, tiles, work_seconds)
        yield from _files(scene, tiles)
    yield from _longest(compiled)
    for zoom in (10, 13):
        yield from mapproxy.compare(scene, _block(scene, compiled, zoom, SIDE), SIDE)


def _block(scene: AnyScene, compiled: CompiledLayer, zoom: int, side: int) -> list[Tile]:
    """The tiles of the block around the densest one, which comes first."""
    [found] = densest_tiles(scene.positions(), [zoom])
    densest = Tile("bench", zoom, found.x, found.y)
    tiles = Block.around(densest, side).tiles(compiled.bounds, STROKE_PADDING)
    return sorted(tiles, key=lambda tile: tile != densest)


def _throughput(scene: AnyScene, tiles: Sequence[Tile], work_seconds: float) -> Iterator[Figure | Note]:
    """Tiles a second, one by one and as a block, and how many times as many."""
    zoom = tiles[0].z
    painted = painting.paint_all(scene, tiles)
    shown = sum(body is not painting.empty_tile(1, "png") for body in painted.values())
    block = _least_seconds(lambda: painting.paint_all(scene, tiles), ROUNDS)
    alone = [_least_seconds(partial(painting.paint, scene, tile), 2) for tile in tiles]
    yield Note(f"zoom {zoom}: {len(tiles)} tiles within the bounds, {shown} of them show something")
    yield Figure(f"zoom {zoom}: the densest tile, tiles a second and core", 1 / alone[0])
    yield Figure(f"zoom {zoom}: one by one, tiles a second and core", len(tiles) / sum(alone))
    yield Figure(f"zoom {zoom}: {SIDE} × {SIDE} at once, tiles a second and core", len(tiles) / block)
    bound = RATIO if zoom == RATIO_ZOOM else None
    name = f"zoom {zoom}: metatile ÷ single, the densest tile ÷ a tile of its block"
    yield Figure(name, alone[0] / (block / len(tiles)), at_least=bound)
    whole = (sum(alone) + len(tiles) * work_seconds) / (block + work_seconds)
    yield Figure(f"zoom {zoom}: a piece of work for each of its tiles ÷ one for all", whole)


def _files(scene: AnyScene, tiles: Sequence[Tile]) -> Iterator[Figure]:
    """Bytes of the tiles that show something, and what encoding them takes."""
    zoom, window = tiles[0].z, Window.around(tiles)
    image = painting.draw(scene, window, zoom, 1)
    assert image is not None
    samples = np.asarray(image)
    boxes = [Window.of(tile).within(window) for tile in tiles]
    cut = [samples[top:bottom, left:right] for left, top, right, bottom in boxes]
    shown = [one for one in cut if one.any()]
    sizes, seconds = {}, {}
    for image_format in ("png", "webp"):
        files = [encoding.encode(one, scene.style.palette, image_format) for one in shown]
        sizes[image_format] = sum(map(len, files)) / len(files)
        encode = partial(_encode_all, shown, scene, image_format)
        seconds[image_format] = _least_seconds(encode, 2) / len(files)
        yield Figure(f"zoom {zoom}: a tile as {image_format.upper()}", sizes[image_format] / 1000, "KB")
        yield Figure(f"zoom {zoom}: encoding it", seconds[image_format] * 1000, "ms")
    yield Figure(f"zoom {zoom}: WebP ÷ PNG, bytes", sizes["webp"] / sizes["png"])
    yield Figure(f"zoom {zoom}: WebP ÷ PNG, time", seconds["webp"] / seconds["png"])


def _encode_all(samples: Sequence[Samples], scene: AnyScene, image_format: str) -> None:
    for one in samples:
        encoding.encode(one, scene.style.palette, image_format)


def _longest(compiled: CompiledLayer) -> Iterator[Figure | Note]:
    """The first tile of a painter that knows nothing of the layer: data read, indexed, thinned, its block painted."""
    took = {}
    for zoom in ZOOMS:
        side = side_at(compiled.metatiles, zoom, 1)
        began = time.perf_counter()
        scene = scene_of(compiled, {})
        [found] = densest_tiles(scene.positions(), [zoom])  # 10 ms that a painter does not need
        block = Block.around(Tile("bench", zoom, found.x, found.y), side)
        painting.paint_all(scene, block.tiles(compiled.bounds, STROKE_PADDING))
        took[zoom] = time.perf_counter() - began
    longest = max(took, key=lambda zoom: took[zoom])
    yield Note("first tile by zoom, ms: " + ", ".join(f"{zoom}: {took[zoom] * 1000:.0f}" for zoom in took))
    name = f"longest first tile of a painter at any zoom, its block with it (zoom {longest})"
    yield Figure(name, took[longest], "s", at_most=LONGEST_SECONDS)


def _least_seconds(work: Callable[[], object], rounds: int) -> float:
    """CPU seconds of the quickest of some rounds: what disturbs only adds."""
    least = float("inf")
    for _ in range(rounds):
        began = time.process_time()
        work()
        least = min(least, time.process_time() - began)
    return least
