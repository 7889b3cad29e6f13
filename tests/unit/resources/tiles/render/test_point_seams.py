"""Neighbouring tiles of points, and blocks of them, against one big picture painted by the same painter."""

from typing import Any

import numpy as np
import pytest

from resources.tiles import grid
from resources.tiles.render import painter
from resources.tiles.render.painter import PointScene
from resources.tiles.tile_address import Tile, Window
from tests.support import geojson
from tests.support.picture_comparison import neighbours, one_picture, place_of

STYLES: dict[str, dict[str, Any]] = {
    "clusters": {"mode": "clusters", "radius": 60},
    "heat": {"mode": "heat", "radius": 37},
    "dots": {"mode": "dots", "radius": 6.5},
    "dots by weight": {"mode": "dots", "radius": [2, 11]},
}


def points_everywhere() -> bytes:
    """Heaps around London, on the antimeridian and at a pole; a few anywhere."""
    random = np.random.default_rng(4)
    heaps = [random.normal(centre, spread, (400, 2)) for centre in ([0.02, 51.5], [180, -17]) for spread in (0.01, 3)]
    pole = np.column_stack((random.uniform(-180, 180, 50), random.uniform(84, 90, 50)))
    positions = np.concatenate([*heaps, pole, random.uniform([-180, -85], [180, 85], (300, 2))])
    positions[:, 0] = (positions[:, 0] + 180) % 360 - 180
    weights = random.exponential(2.0, len(positions)).tolist()
    return geojson.collection(
        *(geojson.point(None, p, weight=w) for p, w in zip(positions.tolist(), weights, strict=True))
    )


@pytest.fixture(scope="module")
def scenes() -> dict[str, PointScene]:
    data = points_everywhere()
    return {name: geojson.point_scene_of(data, each) for name, each in STYLES.items()}


@pytest.mark.parametrize("scale", [1, 2])
@pytest.mark.parametrize("zoom", [2, 5, 8, 12, 15, 22])
@pytest.mark.parametrize("name", STYLES)
def test_neighbours_are_one_big_picture(scenes: dict[str, PointScene], name: str, zoom: int, scale: int) -> None:
    longitude, latitude = 0.02, 51.5
    if zoom == 22:  # there, points are far apart
        index = int(scenes[name].points.weights.argmax())
        u, v = scenes[name].points.x[index] / 2**32, scenes[name].points.y[index] / 2**32
        [longitude, latitude] = grid.unproject_coordinates(np.array([[u, v]]))[0].tolist()
    left, top = place_of(longitude, latitude, zoom)
    tiles = neighbours(scenes[name], zoom, (left, max(top, 0)), (3, 3), scale)
    picture = one_picture(scenes[name], zoom, (left, max(top, 0)), (3, 3), scale)
    assert picture[..., 3].any()
    assert np.array_equal(tiles, picture)


@pytest.mark.parametrize("scale", [1, 2])
@pytest.mark.parametrize("zoom", [1, 4, 7])
@pytest.mark.parametrize("name", STYLES)
def test_neighbours_on_both_sides_of_the_antimeridian_are_one_picture(
    scenes: dict[str, PointScene], name: str, zoom: int, scale: int
) -> None:
    left, (_, top) = 2**zoom - 1, place_of(180, -17, zoom)
    tiles = neighbours(scenes[name], zoom, (left, max(top, 0)), (2, 2), scale)
    picture = one_picture(scenes[name], zoom, (left, max(top, 0)), (2, 2), scale)
    assert picture[..., 3].any()
    assert np.array_equal(tiles, picture)


@pytest.mark.parametrize("scale", [1, 2])
@pytest.mark.parametrize("name", STYLES)
def test_the_world_goes_on_to_both_sides_of_itself(scenes: dict[str, PointScene], name: str, scale: int) -> None:
    tiles = neighbours(scenes[name], 0, (0, 0), (1, 3), scale)
    assert np.array_equal(tiles, one_picture(scenes[name], 0, (-1, 0), (1, 3), scale))


@pytest.mark.parametrize("name", STYLES)
def test_a_block_of_tiles_is_cut_from_one_canvas(scenes: dict[str, PointScene], name: str) -> None:
    left, top = place_of(0.02, 51.5, 6)
    tiles = neighbours(scenes[name], 6, (left - 2, top - 2), (8, 8), 1)
    assert np.array_equal(tiles, one_picture(scenes[name], 6, (left - 2, top - 2), (8, 8), 1))


@pytest.mark.parametrize("scale", [1, 2])
@pytest.mark.parametrize("name", STYLES)
def test_a_tile_of_a_block_is_to_the_byte_the_tile_alone(scenes: dict[str, PointScene], name: str, scale: int) -> None:
    left, top = place_of(0.02, 51.5, 7)
    tiles = [Tile("a", 7, left + i, top + j, scale) for j in range(4) for i in range(4)]
    painted = painter.paint_tiles(scenes[name], tiles)
    assert painted == {tile: painter.paint_tile(scenes[name], tile) for tile in tiles}


@pytest.mark.parametrize("name", STYLES)
def test_a_picture_of_any_place_and_size_is_a_part_of_the_large_one(scenes: dict[str, PointScene], name: str) -> None:
    window = Window(6, 30 * 512 + 131, 20 * 512 + 57, 1001, 533)
    whole = Window(6, 30 * 512, 20 * 512, 4 * 512, 3 * 512)
    part, image = (painter.draw_window(scenes[name], each, 6, 1) for each in (window, whole))
    assert part is not None
    assert image is not None
    assert np.array_equal(np.asarray(part), np.asarray(image)[57 : 57 + 533, 131 : 131 + 1001])


@pytest.mark.parametrize("name", STYLES)
def test_a_place_without_points_near_is_the_shared_empty_tile(scenes: dict[str, PointScene], name: str) -> None:
    assert painter.paint_tile(scenes[name], Tile("a", 18, 5, 150_000)) is painter.encode_empty_tile(1, "png")
    assert painter.paint_tile(scenes[name], Tile("a", 18, 5, 150_000, 2, "webp")) is painter.encode_empty_tile(
        2, "webp"
    )


@pytest.mark.parametrize("name", STYLES)
def test_webp_has_the_same_pixels_as_png(scenes: dict[str, PointScene], name: str) -> None:
    left, top = place_of(0.02, 51.5, 8)
    png, webp = (
        geojson.pixels(painter.paint_tile(scenes[name], Tile("a", 8, left + 1, top + 1, 1, each)))
        for each in ("png", "webp")
    )
    seen = png[..., 3] > 0
    assert seen.any()
    assert np.array_equal(seen, webp[..., 3] > 0)
    assert np.array_equal(png[seen], webp[seen])
