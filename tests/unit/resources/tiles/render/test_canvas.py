"""Filling of polygons on a canvas, as a whole and in parts."""

from itertools import pairwise

import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from resources.tiles.render import canvas
from resources.tiles.render.scene import LatticeLines
from resources.tiles.window import CANVAS_LEFT, CANVAS_MARGIN, Window

Ring = list[tuple[int, int]]

WINDOW = Window(3, 0, 0, 40, 30)
corner = st.tuples(st.integers(-60, 100), st.integers(-50, 80))
ring = st.lists(corner, min_size=3, max_size=12).map(lambda corners: [*corners, corners[0]])


def filled(window: Window, polygons: list[list[Ring]]) -> NDArray[np.bool_]:
    rings = [ring for polygon in polygons for ring in polygon]
    coordinates = np.array([place for ring in rings for place in ring], np.float64) - [window.x, window.y]
    offsets = np.cumsum([0, *map(len, rings)])
    outer = np.array([number == 0 for polygon in polygons for number in range(len(polygon))])
    picture = np.zeros((window.height, window.width), np.bool_)
    for first, mask in canvas.fill_polygons(
        window, LatticeLines(coordinates + np.array([CANVAS_LEFT, CANVAS_MARGIN]), offsets), outer
    ):
        picture[first : first + len(mask)] |= mask
    return picture


@given(ring)
def test_a_pixel_is_filled_when_it_is_well_inside_and_not_when_it_is_well_outside(places: Ring) -> None:
    picture = filled(WINDOW, [[places]])
    rows, columns = np.mgrid[0 : WINDOW.height, 0 : WINDOW.width]
    points = shapely.points(columns.ravel(), rows.ravel())
    near_edge = shapely.dwithin(shapely.linestrings(places), points, 1.0).reshape(picture.shape)
    inside = np.zeros(points.shape, np.int64)
    for (x0, y0), (x1, y1) in pairwise(places):  # even-odd: crossings of a ray to the west
        if y0 != y1:
            met = (rows.ravel() >= min(y0, y1)) & (rows.ravel() < max(y0, y1))
            inside += met & (x0 + (rows.ravel() - y0) * (x1 - x0) / (y1 - y0) < columns.ravel())
    expected = (inside % 2 == 1).reshape(picture.shape)
    assert (picture | near_edge)[expected].all()
    assert not (picture & ~near_edge)[~expected].any()


@settings(max_examples=50)
@given(st.lists(st.lists(ring, min_size=1, max_size=3), min_size=1, max_size=4), st.integers(-70, 90), st.data())
def test_a_part_of_a_window_is_filled_as_in_the_whole(polygons: list[list[Ring]], x: int, data: st.DataObject) -> None:
    y = data.draw(st.integers(-70, 90))
    part = Window(3, x, y, data.draw(st.integers(1, 50)), data.draw(st.integers(1, 50)))
    whole = filled(Window(3, -70, -70, 220, 220), polygons)
    assert np.array_equal(filled(part, polygons), whole[y + 70 :, x + 70 :][: part.height, : part.width])


def test_what_is_in_the_hole_of_another_polygon_shows() -> None:
    outer: Ring = [(0, 0), (30, 0), (30, 30), (0, 30), (0, 0)]
    hole: Ring = [(5, 5), (25, 5), (25, 25), (5, 25), (5, 5)]
    island: Ring = [(10, 10), (20, 10), (20, 20), (10, 20), (10, 10)]
    picture = filled(WINDOW, [[island], [outer, hole]])
    assert picture[2, 2]
    assert not picture[7, 7]
    assert picture[15, 15]


def test_many_meetings_are_filled_in_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    corners = np.random.default_rng(4).integers(-300, 600, (1500, 2)).tolist()
    places: Ring = [*map(tuple, corners), tuple(corners[0])]
    window = Window(3, 0, 0, 300, 300)
    whole = filled(window, [[places]])
    monkeypatch.setattr(canvas, "MAX_FILL_MEETINGS", 5_000)
    assert np.array_equal(filled(window, [[places]]), whole)
