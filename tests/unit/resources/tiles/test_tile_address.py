"""Names of tiles and metatiles; a tile painted in a metatile is to the byte the tile painted alone."""

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resources.tiles import grid, grid_arrays, tile_address
from resources.tiles.render import painter
from resources.tiles.render.scene import Scene
from resources.tiles.tile_address import Metatile, Tile
from tests.support import geojson


def test_names_of_a_block() -> None:
    block = Metatile.around(Tile("jams", 12, 2046, 1361), 8)
    assert block == Metatile("jams", 12, 255, 170, 8)
    assert block.work_key(1795263648251234) == "paint:jams:1795263648251234:12:255:170:8"
    assert block.kind == "paint:jams:12:8"
    dense = Metatile.around(Tile("jams", 12, 2046, 1361, 2, "webp"), 4)
    assert dense.work_key(7) == "paint:jams:7:12:511:340:4:@2xwebp"


def test_all_tiles_of_a_block_share_it_and_others_do_not() -> None:
    block = Metatile.around(Tile("jams", 5, 9, 6), 4)
    tiles = block.tiles(grid.WORLD, 0)
    assert {(tile.x, tile.y) for tile in tiles} == {(x, y) for x in range(8, 12) for y in range(4, 8)}
    assert {Metatile.around(tile, 4) for tile in tiles} == {block}
    assert Metatile.around(Tile("jams", 5, 12, 6), 4) != block


@pytest.mark.parametrize(("zoom", "side"), [(0, 1), (1, 2), (2, 4), (3, 8), (4, 8)])
def test_a_block_is_no_wider_than_the_map(zoom: int, side: int) -> None:
    block = Metatile.around(Tile("jams", zoom, 2**zoom - 1, 0), 8)
    assert block.side == side
    assert len(block.tiles(grid.WORLD, 0)) == side * side


def test_tiles_outside_of_the_layers_bounds_are_left_out() -> None:
    bounds = grid.tile_bounds(5, 9, 6)
    inner = grid.Bounds(bounds.west + 1, bounds.south + 1, bounds.east - 1, bounds.north - 1)
    assert Metatile("jams", 5, 2, 1, 4).tiles(inner, 0) == [Tile("jams", 5, 9, 6)]
    assert Metatile("jams", 5, 0, 0, 4).tiles(inner, 0) == []


def test_a_block_at_either_side_of_the_antimeridian_has_its_part_of_the_bounds() -> None:
    fiji = grid.Bounds(170, -20, -170, -10)
    west, east = Metatile("a", 4, 3, 2, 4).tiles(fiji, 0), Metatile("a", 4, 0, 2, 4).tiles(fiji, 0)
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
def test_sides_are_by_zoom_and_half_for_big_tiles(metatiles: dict[int, int], zoom: int, scale: int, side: int) -> None:
    assert tile_address.metatile_side(metatiles, zoom, scale) == side


def test_only_sides_of_metatiles_are_read_from_a_row() -> None:
    kept: dict[str, Any] = {"8": 2, "9": 3, "10": "8", "x": 4, "11": None, "12": 8, "-1": 2}
    assert tile_address.read_metatile_sides(kept) == {8: 2, 12: 8}


def lines(middle: tuple[float, float], span: float, random: np.random.Generator) -> Scene:
    steps = random.normal(0, span / 5, (40, 12, 2))
    paths = np.array(middle) + random.normal(0, span, (40, 1, 2)) + np.cumsum(steps, axis=1)
    speeds = random.uniform(0, 60, len(paths)).tolist()
    features = [
        geojson.line(number, on_earth(path), speed=speed, free_flow=50)
        for number, (path, speed) in enumerate(zip(paths, speeds, strict=True))
    ]
    width = float(random.choice([0.5, 1, 1.5, 2.25, 4.5, 9]))
    return geojson.scene_of("lines", geojson.collection(*features), {"widths": {"0": width}})


def areas(middle: tuple[float, float], span: float, random: np.random.Generator) -> Scene:
    """Polygons whose holes reach beyond them, and cross themselves, over a square."""
    features = [geojson.area("square", on_earth(np.array(geojson.square(-1, -1, 1, 1)) * span + middle))]
    for number in range(12):
        shell, hole = (np.array(middle) + random.normal(0, span, (size, 2)) for size in (9, 5))
        rings = [on_earth(np.concatenate((ring, ring[:1]))) for ring in (shell, hole)]
        features.append(geojson.area(number, *rings))
    width = float(random.choice([0.5, 1, 3]))
    return geojson.scene_of("areas", geojson.collection(*features), {"widths": {"0": width}})


def on_earth(positions: Any) -> list[list[float]]:
    corners: list[list[float]] = np.clip(positions, [-180, -89.9], [180, 89.9]).tolist()
    return corners


@settings(max_examples=25)
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
    [u, v] = (
        np.clip(grid_arrays.project_positions(np.array([middle]))[0] * 2**zoom, 0, 2**zoom - 1).astype(int).tolist()
    )
    image_format = "webp" if seed % 4 == 0 else "png"
    tiles = Metatile.around(Tile("a", zoom, u, v, scale, image_format), side).tiles(grid.WORLD, 0)
    painted = painter.paint_tiles(scene, tiles)
    assert list(painted) == tiles
    for tile in Random(seed).sample(tiles, min(8, len(tiles))):
        assert painted[tile] == painter.paint_tile(scene, tile)


def test_tiles_of_a_block_that_show_nothing_are_the_shared_empty_one() -> None:
    scene = geojson.scene_of("lines", geojson.collection(geojson.line(1, [[1, 1], [2, 2]])))
    painted = painter.paint_tiles(scene, Metatile("a", 4, 2, 1, 4).tiles(grid.WORLD, 0))
    empty = [tile for tile, body in painted.items() if body is painter.encode_empty_tile(1, "png")]
    assert len(painted) - len(empty) == 1
    assert painter.paint_tiles(scene, []) == {}


@pytest.mark.parametrize(
    "address",
    [
        "",
        "jams/1/0/0",
        "jams/1/0/0.jpg",
        "jams/01/0/0.png",
        "jams/1/0/01.png",
        "jams/1/+0/0.png",
        "jams/1/0/0@3x.png",
        "jams/1/0/0.png\n",
        "jams/1/2/0.png",
        "jams/23/0/0.png",
        "jams/１/0/0.png",
        "a:b/1/0/0.png",
        "a" * 51 + "/1/0/0.png",
        "a" * 5_000_000,
    ],
)
def test_addresses_that_name_no_tile(address: str) -> None:
    assert Tile.parse(address) is None


@given(st.integers(0, 22), st.data(), st.sampled_from(["", "@2x"]), st.sampled_from(["png", "webp"]))
def test_every_tile_of_the_grid_has_one_name(z: int, data: st.DataObject, twice: str, image_format: str) -> None:
    x, y = (data.draw(st.integers(0, 2**z - 1)) for _ in "xy")
    address = f"jams/{z}/{x}/{y}{twice}.{image_format}"
    tile = Tile.parse(address)
    assert tile == Tile("jams", z, x, y, 2 if twice else 1, image_format)
    assert (tile.path, tile.content_key) == (f"/tiles/{address}", f"tile:jams:{z}:{x}:{y}{twice}:{image_format}")
    assert Tile.of_key(tile.content_key) == tile


@given(st.text())
def test_no_text_is_answered_with_an_exception(address: str) -> None:
    Tile.parse(address)


@pytest.mark.parametrize(
    "key",
    ["", "tile", "tile:jams:1:9:0:png", "prime:7", "page:jams:1:0:0:png", "tile:a b:1:0:0:png", "tile:a:1:0:0:png:x"],
)
def test_other_keys_lead_nowhere(key: str) -> None:
    assert Tile.of_key(key) is None
