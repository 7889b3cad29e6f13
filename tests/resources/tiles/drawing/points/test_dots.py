import numpy as np
import pytest

from resources.tiles.drawing import painting
from resources.tiles.drawing.points import dots
from resources.tiles.tile import Tile

from ... import builders
from ...builders import collection, point

STYLE = {"mode": "dots", "radius": 5, "colours": {"fill": "#ff0000", "outline": "#0000ff"}}


def picture(data: bytes, tile: Tile, **style: object) -> np.ndarray:
    return builders.pixels(painting.paint(builders.point_scene_of(data, {**STYLE, **style}), tile))


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
    data, tile = builders.many_points(3000), Tile("a", 7, 63, 42, 2)
    at_once = picture(data, tile, radius=radius)
    monkeypatch.setattr(dots, "STAMPED", 10**9)
    assert np.array_equal(picture(data, tile, radius=radius), at_once)
    monkeypatch.setattr(dots, "STAMPED", 0)
    assert np.array_equal(picture(data, tile, radius=radius), at_once)


def test_weights_are_divided_into_steps_between_the_least_and_the_most() -> None:
    assert dots.weight_steps(np.array([0, 0.1, 5, 10])).tolist() == [0, 0, 4, 7]
    assert dots.weight_steps(np.array([3.0, 3.0])).tolist() == [7, 7]
    assert dots.weight_steps(np.array([0.0, 1e300])).tolist() == [0, 7]
