"""Heat maps and dots: colours, weights, radius and order."""

import numpy as np
import pytest

from resources.tiles.render import heat, painter
from resources.tiles.tile_address import Tile
from tests.support import geojson
from tests.support.geojson import collection, point

RED = {"mode": "heat", "radius": 30, "colours": {"highest": "#ff0000"}}


def alphas(data: bytes, tile: Tile, **style: object) -> np.ndarray:
    scene = geojson.point_scene_of(data, {**RED, **style})
    return geojson.pixels(painter.paint_tile(scene, tile))[..., 3].astype(int)


def test_the_densest_place_has_the_highest_colour() -> None:
    scene = geojson.point_scene_of(collection(point(1, [0, 0])), RED)
    assert geojson.pixels(painter.paint_tile(scene, Tile("a", 1, 1, 1)))[0, 0][:3].tolist() == [255, 0, 0]


def test_heat_is_round_and_fades_to_nothing_within_the_radius() -> None:
    square = alphas(collection(point(1, [0, 0])), Tile("a", 1, 1, 1))[:32, :32]
    row = square[0]
    assert (np.diff(row) <= 0).all()
    assert row[0] > 200
    assert row[15] > 0
    assert not row[31:].any()
    assert np.array_equal(square, square.T)
    distances = np.hypot(*np.indices(square.shape))
    for distance in (8, 16, 22):
        ring = square[np.abs(distances - distance) < 0.6]
        assert ring.max() - ring.min() < 25


def test_weights_make_heat() -> None:
    data = collection(point(1, [-60, 0], weight=1), point(2, [60, 0], weight=9))
    tile = alphas(data, Tile("a", 0, 0, 0), radius=20)
    light, heavy = tile[128, 128 - 43], tile[128, 128 + 42]
    assert 0 < light < heavy


def test_points_that_weigh_nothing_make_no_heat() -> None:
    scene = geojson.point_scene_of(collection(point(1, [0, 0], weight=0), point(2, [9, 9], weight=0)), RED)
    assert painter.paint_tile(scene, Tile("a", 0, 0, 0)) is painter.encode_empty_tile(1, "png")


def test_a_zoom_is_measured_by_its_densest_place_not_by_the_tile() -> None:
    alone = alphas(collection(point("alone", [-90, 0])), Tile("a", 1, 0, 1)).max()
    heap = [point(None, [90, 0]) for _ in range(20)]
    beside = alphas(collection(point("alone", [-90, 0]), *heap), Tile("a", 1, 0, 1)).max()
    assert 0 < beside < alone


@pytest.mark.parametrize("zoom", [0, 6])
def test_the_peak_is_near_the_greatest_density(zoom: int) -> None:
    placed = geojson.points_of(geojson.many_points(3000))
    weights = heat.scale_weights(placed.weights)
    kernel, radius = heat.gaussian_kernel(20), 20
    peak = heat.find_peak(placed, weights, zoom, radius)
    x, y = placed.x >> (24 - zoom), placed.y >> (24 - zoom)
    heights = np.append(kernel[radius:], 0)
    greatest = 0.0
    for i in range(len(x)):
        along, down = (np.minimum(np.abs(places - places[i]), radius + 1) for places in (x, y))
        greatest = max(greatest, float((heights[along] * heights[down] * weights).sum()))
    assert 0.7 < greatest / peak < 1.3


def test_weights_stay_exact_however_many_points_there_are() -> None:
    for count in (1, 1000, 3_000_000):
        whole = heat.scale_weights(np.ones(count))
        assert 0 < int(whole.sum()) * heat.KERNEL_TOP**2 * heat.FINER_WEIGHTS <= heat.EXACT_BELOW


def test_the_least_weight_is_not_lost_beside_the_greatest() -> None:
    assert heat.scale_weights(np.array([0, 1e-9, 1e9, 1e300])).tolist() == [0, 1, 1, heat.WEIGHT_STEPS]


STYLE = {"mode": "dots", "radius": 5, "colours": {"fill": "#ff0000", "outline": "#0000ff"}}


def picture(data: bytes, tile: Tile, **style: object) -> np.ndarray:
    return geojson.pixels(painter.paint_tile(geojson.point_scene_of(data, {**STYLE, **style}), tile))


def test_a_dot_is_a_disc_with_an_outline() -> None:
    image = picture(collection(point(1, [90, 0])), Tile("a", 1, 1, 1))
    row = image[0]
    assert row[128].tolist() == [255, 0, 0, 255]
    assert row[128 + 4].tolist() == [255, 0, 0, 255]
    assert row[128 + 5][2] > 0
    assert not row[128 + 8 :, 3].any()


def test_dots_of_more_weight_are_larger_and_lie_below() -> None:
    data = collection(point(1, [0, 0], weight=10), point(2, [0, 0], weight=1))
    row = picture(data, Tile("a", 1, 1, 1), radius=[3, 20])[0]
    assert (row[:19, 3] == 255).all()
    reds = (row[:, :3] == [255, 0, 0]).all(axis=1)
    assert reds[0]
    assert not reds[3]  # the outline of the small one
    assert reds[6:19].all()


def test_southern_dots_lie_over_northern_ones() -> None:
    image = picture(collection(point(1, [0, 0.5]), point(2, [0, -2])), Tile("a", 1, 1, 1))
    blue = (image[:, 0, :3] == [0, 0, 255]).all(axis=1)
    assert not blue[2]


@pytest.mark.parametrize("radius", [4, [1, 9]])
def test_many_dots_look_as_the_same_dots_one_by_one(radius: object, monkeypatch: pytest.MonkeyPatch) -> None:
    data, tile = geojson.many_points(2000), Tile("a", 7, 63, 42, 2)
    monkeypatch.setattr(heat, "MAX_STAMPED_DOTS", 10**9)
    at_once = picture(data, tile, radius=radius)
    monkeypatch.setattr(heat, "MAX_STAMPED_DOTS", 0)
    assert np.array_equal(picture(data, tile, radius=radius), at_once)


def test_weights_are_divided_into_steps_between_the_least_and_the_most() -> None:
    assert heat.weight_steps(np.array([0, 0.1, 5, 10])).tolist() == [0, 0, 4, 7]
    assert heat.weight_steps(np.array([3.0, 3.0])).tolist() == [7, 7]
    assert heat.weight_steps(np.array([0.0, 1e300])).tolist() == [0, 7]
