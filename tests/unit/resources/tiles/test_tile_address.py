"""Blocks of tiles: their names, and that a tile painted in one is to the byte the tile painted alone."""

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resources.tiles import blocks, grid
from resources.tiles.blocks import Block
from resources.tiles.drawing import painting
from resources.tiles.drawing.scene import Scene
from resources.tiles.tile import Tile

from . import builders


def test_names_of_a_block() -> None:
    block = Block.around(Tile("jams", 12, 2046, 1361), 8)
    assert block == Block("jams", 12, 255, 170, 8)
    assert block.work_key(1795263648251234) == "paint:jams:1795263648251234:12:255:170:8"
    assert block.kind == "paint:jams:12:8"


def test_names_of_a_block_of_large_webp_tiles_are_its_own() -> None:
    block = Block.around(Tile("jams", 12, 2046, 1361, 2, "webp"), 4)
    assert block.work_key(7) == "paint:jams:7:12:511:340:4:@2xwebp"


def test_all_tiles_of_a_block_share_it_and_others_do_not() -> None:
    block = Block.around(Tile("jams", 5, 9, 6), 4)
    tiles = block.tiles(grid.WORLD, 0)
    assert {(tile.x, tile.y) for tile in tiles} == {(x, y) for x in range(8, 12) for y in range(4, 8)}
    assert {Block.around(tile, 4) for tile in tiles} == {block}
    assert Block.around(Tile("jams", 5, 12, 6), 4) != block


@pytest.mark.parametrize(("zoom", "side"), [(0, 1), (1, 2), (2, 4), (3, 8), (4, 8)])
def test_a_block_is_no_wider_than_the_map(zoom: int, side: int) -> None:
    block = Block.around(Tile("jams", zoom, 2**zoom - 1, 0), 8)
    assert block.side == side
    assert len(block.tiles(grid.WORLD, 0)) == side * side


def test_tiles_outside_of_the_layers_bounds_are_left_out() -> None:
    bounds = grid.tile_bounds(5, 9, 6)
    inner = grid.Bounds(bounds.west + 1, bounds.south + 1, bounds.east - 1, bounds.north - 1)
    assert Block("jams", 5, 2, 1, 4).tiles(inner, 0) == [Tile("jams", 5, 9, 6)]
    assert Block("jams", 5, 0, 0, 4).tiles(inner, 0) == []


def test_a_block_at_either_side_of_the_antimeridian_has_its_part_of_the_bounds() -> None:
    fiji = grid.Bounds(170, -20, -170, -10)
    west, east = Block("a", 4, 3, 2, 4).tiles(fiji, 0), Block("a", 4, 0, 2, 4).tiles(fiji, 0)
    assert ({tile.x for tile in west}, {tile.x for tile in east}) == ({15}, {0})


@pytest.mark.parametrize(
    ("metatiles", "zoom", "scale", "side"),
    [
        ({}, 10, 1, 1),
        ({10: 8}, 10, 1, 8),
        ({10: 8}, 9, 1, 1),
        ({8: 2, 10: 8}, 9, 1, 2),
        ({8: 2, 10: 8}, 18, 1, 8),
        ({10: 8}, 10, 2, 4),
        ({10: 1}, 10, 2, 1),
    ],
)
def test_the_side_is_that_of_the_zoom_and_half_for_large_tiles(
    metatiles: dict[int, int], zoom: int, scale: int, side: int
) -> None:
    assert blocks.side_at(metatiles, zoom, scale) == side


def test_what_is_no_side_is_not_read_from_a_row() -> None:
    kept: dict[str, Any] = {"8": 2, "9": 3, "10": "8", "x": 4, "11": None, "12": 8, "-1": 2}
    assert blocks.read_sides(kept) == {8: 2, 12: 8}


def lines(middle: tuple[float, float], span: float, random: np.random.Generator) -> Scene:
    steps = random.normal(0, span / 5, (40, 12, 2))
    paths = np.array(middle) + random.normal(0, span, (40, 1, 2)) + np.cumsum(steps, axis=1)
    speeds = random.uniform(0, 60, len(paths)).tolist()
    features = [
        builders.line(number, on_earth(path), speed=speed, free_flow=50)
        for number, (path, speed) in enumerate(zip(paths, speeds, strict=True))
    ]
    width = float(random.choice([0.5, 1, 1.5, 2.25, 4.5, 9]))
    return builders.scene_of("lines", builders.collection(*features), {"widths": {"0": width}})


def areas(middle: tuple[float, float], span: float, random: np.random.Generator) -> Scene:
    """Polygons whose holes reach beyond them, and cross themselves, over a square."""
    features = [builders.area("square", on_earth(np.array(builders.square(-1, -1, 1, 1)) * span + middle))]
    for number in range(12):
        shell, hole = (np.array(middle) + random.normal(0, span, (size, 2)) for size in (9, 5))
        rings = [on_earth(np.concatenate((ring, ring[:1]))) for ring in (shell, hole)]
        features.append(builders.area(number, *rings))
    width = float(random.choice([0.5, 1, 3]))
    return builders.scene_of("areas", builders.collection(*features), {"widths": {"0": width}})


def on_earth(positions: Any) -> list[list[float]]:
    corners: list[list[float]] = np.clip(positions, [-180, -89.9], [180, 89.9]).tolist()
    return corners


@settings(max_examples=60)
@given(
    st.sampled_from([lines, areas]),
    st.integers(0, 22),
    st.sampled_from([(0.02, 51.5), (179.9, -17.0), (-179.9, 10.0), (30.0, 85.0), (-60.0, -85.0)]),
    st.sampled_from([0.05, 0.4, 2.0]),
    st.sampled_from([(2, 1), (4, 1), (8, 1), (2, 2)]),
    st.integers(0, 2**32 - 1),
)
def test_a_tile_of_a_block_is_to_the_byte_the_tile_alone(  # noqa: PLR0917  # drawn one by one
    kind: Any, zoom: int, middle: tuple[float, float], tiles_wide: float, shape: tuple[int, int], seed: int
) -> None:
    side, scale = shape
    span = min(360 / 2**zoom * tiles_wide, 20.0)  # wider areas would go round the globe several times
    scene = kind(middle, span, np.random.default_rng(seed))
    [u, v] = np.clip(grid.project(np.array([middle]))[0] * 2**zoom, 0, 2**zoom - 1).astype(int).tolist()
    image_format = "webp" if seed % 4 == 0 else "png"
    tiles = Block.around(Tile("a", zoom, u, v, scale, image_format), side).tiles(grid.WORLD, 0)
    painted = painting.paint_all(scene, tiles)
    assert list(painted) == tiles
    for tile in Random(seed).sample(tiles, min(8, len(tiles))):
        assert painted[tile] == painting.paint(scene, tile)


def test_no_tiles_are_painted_of_no_tiles() -> None:
    scene = builders.scene_of("lines", builders.collection(builders.line(1, [[0, 0], [1, 1]])))
    assert painting.paint_all(scene, []) == {}


def test_tiles_of_a_block_that_show_nothing_are_the_shared_empty_one() -> None:
    scene = builders.scene_of("lines", builders.collection(builders.line(1, [[1, 1], [2, 2]])))
    painted = painting.paint_all(scene, Block("a", 4, 2, 1, 4).tiles(grid.WORLD, 0))
    empty = [tile for tile, body in painted.items() if body is painting.empty_tile(1, "png")]
    assert len(painted) - len(empty) == 1
