"""The tile grid: projection, bounds, and the tiles that they touch."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from resources.tiles import grid, grid_arrays
from resources.tiles.errors import LayerError

longitudes = st.floats(-180, 180)
latitudes = st.floats(-grid.MAX_LATITUDE, grid.MAX_LATITUDE)
zooms = st.integers(0, grid.MAX_ZOOM)


@st.composite
def tiles(draw: st.DrawFn) -> tuple[int, int, int]:
    z = draw(zooms)
    return z, draw(st.integers(0, 2**z - 1)), draw(st.integers(0, 2**z - 1))


@st.composite
def bounds(draw: st.DrawFn) -> grid.Bounds:
    south, north = sorted((draw(latitudes), draw(latitudes)))
    return grid.Bounds(draw(longitudes), south, draw(longitudes), north)


@given(longitudes, latitudes)
def test_projecting_and_back_gives_the_same_place(longitude: float, latitude: float) -> None:
    [[back_longitude, back_latitude]] = grid_arrays.unproject_coordinates(
        grid_arrays.project_positions(np.array([[longitude, latitude]]))
    ).tolist()
    assert math.isclose(back_longitude, longitude, abs_tol=1e-9)
    assert math.isclose(back_latitude, latitude, abs_tol=1e-9)


@given(longitudes, latitudes, zooms)
def test_the_projection_is_that_of_slippy_maps(longitude: float, latitude: float, z: int) -> None:
    [[u, v]] = grid_arrays.project_positions(np.array([[longitude, latitude]])).tolist()
    x, y = _tile_at(longitude, latitude, z)
    last = 2**z - 1
    assert abs(min(int(u * 2**z), last) - x) <= (1 if math.isclose(u * 2**z % 1, round(u * 2**z % 1)) else 0)
    assert abs(min(int(v * 2**z), last) - y) <= (1 if not 1e-6 < v * 2**z % 1 < 1 - 1e-6 else 0)


def _tile_at(longitude: float, latitude: float, z: int) -> tuple[int, int]:
    """Follows https://wiki.openstreetmap.org/wiki/Slippy_map_tilenames, step by step."""
    tiles, angle = 2**z, math.radians(latitude)
    x = int((longitude + 180.0) / 360.0 * tiles)
    y = int((1.0 - math.log(math.tan(angle) + 1 / math.cos(angle)) / math.pi) / 2.0 * tiles)
    return min(max(x, 0), tiles - 1), min(max(y, 0), tiles - 1)


@settings(max_examples=50)
@given(tiles())
def test_the_smallest_tile_around_a_tiles_bounds_is_that_tile(tile: tuple[int, int, int]) -> None:
    assert grid.tile_around(grid.tile_bounds(*tile), 0, grid.MAX_ZOOM) == tile


@pytest.mark.parametrize(
    ("box", "tile"),
    [
        (grid.WORLD, (0, 0, 0)),
        (grid.Bounds(-0.51, 51.28, 0.33, 51.69), (0, 0, 0)),  # London lies on both sides of Greenwich
        (grid.Bounds(13.1, 52.3, 13.7, 52.7), (5, 17, 10)),
        (grid.Bounds(177.0, -19.0, -178.0, -16.0), (0, 0, 0)),
    ],
)
def test_the_smallest_tile_around_bounds_holds_all_of_them(box: grid.Bounds, tile: tuple[int, int, int]) -> None:
    assert grid.tile_around(box, 0, grid.MAX_ZOOM) == tile


@given(st.floats(-90, 90), longitudes)
@example(90.0, 0.0)
@example(-90.0, 180.0)
def test_poles_are_clipped_to_the_map(latitude: float, longitude: float) -> None:
    projected = grid_arrays.project_positions(np.array([[longitude, latitude]]))
    assert ((projected >= 0) & (projected <= 1)).all()


@given(st.floats(-90, 90))
def test_drawn_geometry_stays_finite_at_the_poles(latitude: float) -> None:
    assert np.isfinite(grid_arrays.project_positions(np.array([[0.0, latitude]]), grid.DRAWN_LATITUDE)).all()


@pytest.mark.parametrize("tile", [(-1, 0, 0), (23, 0, 0), (0, 1, 0), (0, 0, 1), (3, -1, 0), (3, 0, 8)])
def test_tiles_off_the_grid_are_not_valid(tile: tuple[int, int, int]) -> None:
    assert not grid.is_tile(*tile)


def _place_within(box: grid.Bounds, eastward: float, northward: float) -> tuple[float, float]:
    """Returns a longitude and a latitude within the box, by its shares of the box' width and height."""
    width = (box.east - box.west) % 360 if box.crosses_antimeridian else box.east - box.west
    longitude = box.west + eastward * width
    wrapped = longitude - 360 if longitude > grid.WORLD.east else longitude
    passed = wrapped > box.east and (wrapped < box.west or not box.crosses_antimeridian)
    return box.east if passed else wrapped, min(box.south + northward * (box.north - box.south), box.north)


@settings(max_examples=50)
@given(bounds(), st.integers(0, 10), st.floats(0, 1), st.floats(0, 1))
def test_tiles_of_places_in_bounds_touch_them(box: grid.Bounds, z: int, eastward: float, northward: float) -> None:
    assert grid.bounds_touch_tile(box, z, *_tile_at(*_place_within(box, eastward, northward), z))


@given(bounds(), zooms, zooms)
@example(grid.Bounds(0.0, 0.0, -5.7e-13, 0.0), 1, 1)
def test_the_tile_that_shows_bounds_touches_them_within_the_zooms(box: grid.Bounds, one: int, other: int) -> None:
    z, x, y = grid.tile_around(box, min(one, other), max(one, other))
    assert min(one, other) <= z <= max(one, other)
    assert grid.is_tile(z, x, y)
    assert grid.bounds_touch_tile(box, z, x, y)


def test_bounds_across_the_antimeridian_touch_tiles_on_both_sides_only() -> None:
    fiji = grid.Bounds(177.0, -19.0, -178.0, -16.0)
    assert {x for x in range(64) for y in range(64) if grid.bounds_touch_tile(fiji, 6, x, y)} == {0, 63}
    assert len(fiji.boxes()) == 2
    assert grid.bounds_touch_tile(grid.Bounds(179.9, 0, 180, 10), 3, 0, 3), "a stroke at the map's edge reaches there"


@given(st.lists(st.tuples(st.floats(0, 0.999), st.floats(0, 0.5)), min_size=1, max_size=8))
def test_bounds_enclose_every_part(parts: list[tuple[float, float]]) -> None:
    spans = np.array([(start, start + length) for start, length in parts])
    box = grid_arrays.enclosing_bounds(spans, 0.4, 0.6)
    for u in (spans[:, 0], spans[:, 1], spans.mean(axis=1)):
        for longitude in (np.mod(u, 1.0) * 360 - 180).tolist():
            inside = box.west - 1e-9 <= longitude <= box.east + 1e-9
            if box.crosses_antimeridian:
                inside = longitude >= box.west - 1e-9 or longitude <= box.east + 1e-9
            assert inside or math.isclose(abs(longitude), 180.0)


def test_unwrapping_goes_on_past_the_antimeridian_and_starts_anew_in_each_line() -> None:
    found = grid_arrays.unwrap_longitudes(np.array([179.0, -179.0, -178.0, 170.0, -179.0, 179.0]), np.array([0, 3, 6]))
    assert found.tolist() == [179, 181, 182, 170, 181, 179]
    assert grid_arrays.unwrap_longitudes(np.array([-180.0, 180.0]), np.array([0, 2])).tolist() == [-180, 180]


@pytest.mark.parametrize(
    "values",
    [None, "0,0,1,1", [0, 0, 1], [0, 0, 1, float("nan")], [0, 0, 1, float("inf")], [0, 10, 1, 0], [0, 0, 181, 1],
     [-181, 0, 0, 1], [0, -91, 0, 1], [0, 0, 1, True], ["0", 0, 1, 1]],
)  # fmt: skip
def test_bounds_that_are_no_box_on_earth_are_refused(values: object) -> None:
    with pytest.raises(LayerError):
        grid.Bounds.parse(values)
