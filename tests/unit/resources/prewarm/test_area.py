"""Areas of pre-warming: tiles of a box or a polygon, counts and bounds."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.prewarm import area
from resources.prewarm.area import TileCoverage
from resources.tiles import grid
from resources.tiles.errors import LayerError
from tests.support import geojson

LONDON = grid.Bounds(-0.5, 51.3, 0.3, 51.7)
FIJI = grid.Bounds(177.0, -19.0, -178.0, -16.0)


def polygon(*rings: list[list[float]]) -> dict[str, object]:
    return {"type": "Polygon", "coordinates": list(rings)}


@pytest.mark.parametrize("bounds", [LONDON, FIJI, grid.WORLD, grid.Bounds(179.9, 0, 180, 1)])
@pytest.mark.parametrize("zoom", [0, 1, 3, 6])
def test_a_box_covers_the_tiles_that_show_something_of_it(bounds: grid.Bounds, zoom: int) -> None:
    covered = TileCoverage(area.area_of_bounds(bounds), range(zoom, zoom + 1))
    expected = {(x, y) for x in range(2**zoom) for y in range(2**zoom) if grid.bounds_touch_tile(bounds, zoom, x, y)}
    found = list(covered.tiles(zoom))
    assert set(found) == expected
    assert len(found) == len(expected) == covered.count(zoom)


@pytest.mark.parametrize("side", [1, 2, 4, 8])
def test_blocks_are_those_that_have_a_tile_of_the_coverage(side: int) -> None:
    covered = TileCoverage(area.area_of_bounds(LONDON), range(13))
    blocks = list(covered.tiles(12, side))
    assert set(blocks) == {(x // side, y // side) for x, y in covered.tiles(12)}
    assert len(blocks) == covered.count(12, side)
    assert list(covered.tiles(0, side)) == [(0, 0)]


def test_nothing_is_listed_in_advance() -> None:
    world = TileCoverage(area.area_of_bounds(grid.WORLD), range(23))
    assert next(world.tiles(22)) == (0, 0)
    assert world.count(22) == 4**22


def test_an_area_that_takes_too_long_to_count_is_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    triangle = polygon([[-0.5, 51.3], [0.3, 51.3], [0.3, 51.7], [-0.5, 51.3]])
    covered = TileCoverage(area.area_of_geojson(json.dumps(triangle)), range(15))
    exact = covered.count(14)
    assert exact == len(list(covered.tiles(14)))
    monkeypatch.setattr(area, "MAX_VISITED_TILES", 20)
    assert covered.count(14) == pytest.approx(exact, rel=0.05)


def test_a_polygon_leaves_out_what_is_not_in_it() -> None:
    ring = polygon(geojson.square(-40, -40, 40, 40), geojson.square(-30, -30, 30, 30))
    covered = TileCoverage(area.area_of_geojson(json.dumps({"type": "Feature", "geometry": ring})), range(8))
    assert covered.holds(7, 64 + 12, 64)
    assert not covered.holds(7, 64, 64)
    assert not covered.holds(8, 128 + 24, 128), "zoom 8 is not meant"
    assert (64, 64) not in set(covered.tiles(7))


@given(st.floats(-179, 170), st.floats(-80, 70), st.floats(0.1, 9), st.floats(0.1, 9), st.integers(0, 8))
def test_a_box_of_geojson_covers_its_bounds(west: float, south: float, width: float, height: float, zoom: int) -> None:
    east, north = west + width, south + height
    drawn = area.area_of_geojson(json.dumps(polygon(geojson.square(west, south, east, north))))
    zooms = range(zoom, zoom + 1)
    assert set(TileCoverage(drawn, zooms, 0.25).tiles(zoom)) >= set(
        TileCoverage(area.area_of_bounds(grid.Bounds(west, south, east, north)), zooms, 0.125).tiles(zoom)
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[1, 2]",
        "{}",
        '{"type": "Point", "coordinates": [1, 2]}',
        '{"type": "Polygon", "coordinates": [[[1, 2]]]}',
        '{"type": "Polygon", "coordinates": "here"}',
        '{"type": "FeatureCollection", "features": [null, 3]}',
        '{"type": "Polygon", "coordinates": [[[0, 0], [0, 1], [0, 2], [0, 0]]]}',
        "[" * 5000,
    ],
)
def test_a_bad_area_is_told(text: str) -> None:
    with pytest.raises(LayerError, match="polygon"):
        area.area_of_geojson(text)


def test_an_area_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    text = json.dumps(polygon(geojson.square(0, 0, 1, 1)))
    monkeypatch.setattr(area, "MAX_AREA_POSITIONS", 4)
    with pytest.raises(LayerError, match="at most 4 positions"):
        area.area_of_geojson(text)
    monkeypatch.setattr(area, "MAX_AREA_BYTES", 10)
    with pytest.raises(LayerError, match="at most 10 bytes"):
        area.area_of_geojson(text)
