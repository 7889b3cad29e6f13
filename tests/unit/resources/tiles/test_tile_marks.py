"""Sets of tiles and their versions: exact while they are few, a superset and bounded when they are many."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.tiles import grid, grid_arrays, tile_marks
from resources.tiles.tile_marks import TileMarks, TouchedTiles, ZoomMarks, join_touched

places = st.integers(0, 2**22 - 1)


def touched(*zooms: set[tuple[int, int]], below: set[tuple[int, int]] = frozenset()) -> TouchedTiles:  # type: ignore[assignment]
    return TouchedTiles(tuple(map(keys, zooms)), keys(below))


def keys(tiles: set[tuple[int, int]]) -> grid_arrays.TileKeys:
    return np.unique(np.array([grid.tile_key(x, y) for x, y in tiles], np.int64))


def everywhere(zoom: int) -> TouchedTiles:
    return TouchedTiles(tuple(np.arange(4**z) for z in range(zoom + 1)))


TWO_CHANGES = TileMarks().with_touched(touched({(0, 0)}, {(0, 0), (1, 1)}), 10, 0)[0]
TWO_CHANGES = TWO_CHANGES.with_touched(touched({(0, 0)}, {(1, 1)}, below={(1, 1)}), 20, 0)[0]


@given(st.lists(st.tuples(places, places), min_size=1))
def test_a_tiles_number_leads_back_to_it_and_its_parents_to_what_covers_it(tiles: list[tuple[int, int]]) -> None:
    x, y = (np.array(each, np.int64) for each in zip(*tiles, strict=True))
    numbers = grid_arrays.tile_keys(x, y)
    assert numbers.tolist() == [grid.tile_key(*tile) for tile in tiles]
    assert [each.tolist() for each in grid_arrays.key_places(numbers)] == [x.tolist(), y.tolist()]
    assert [each.tolist() for each in grid_arrays.key_places(numbers >> 2)] == [(x >> 1).tolist(), (y >> 1).tolist()]


@pytest.mark.parametrize(
    ("tile", "version"),
    [
        ((0, 0, 0), 20),
        ((1, 0, 0), 10),
        ((1, 1, 1), 20),
        ((1, 1, 0), 0),
        ((2, 2, 3), 20),
        ((2, 1, 1), 0),
        ((9, 0, 0), 0),
    ],
)
def test_a_tile_has_the_version_of_the_last_change_that_touched_it(tile: tuple[int, int, int], version: int) -> None:
    assert TWO_CHANGES.version_of(*tile) == version


@given(st.integers(0, 5), st.sampled_from([1, 2, 4, 8]), st.data())
def test_a_block_has_the_newest_version_of_its_tiles(z: int, side: int, data: st.DataObject) -> None:
    side = min(side, 2**z)
    x, y = (data.draw(st.integers(0, 2**z // side - 1)) for _ in "xy")
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    found = TileMarks()
    for version in (1, 2, 3):
        zooms = tuple(np.flatnonzero(random.random(4**zoom) < 0.2) for zoom in range(4))
        found, _ = found.with_touched(TouchedTiles(zooms, zooms[-1]), version, 0)
    tiles = [(x * side + i, y * side + j) for i in range(side) for j in range(side)]
    assert found.version_of(z, x, y, side) == max(found.version_of(z, *tile) for tile in tiles)


def test_marks_come_back_as_they_were_packed() -> None:
    back = TileMarks.unpack(TWO_CHANGES.pack())
    assert (back.count, back.versions()) == (TWO_CHANGES.count, [10, 20])
    assert back.between(0, 10).tiles(1) == {(0, 0)}
    assert [back.version_of(2, x, y) for x in range(4) for y in range(4)] == [
        TWO_CHANGES.version_of(2, x, y) for x in range(4) for y in range(4)
    ]
    assert TileMarks.unpack(TileMarks().pack()).count == 0


@pytest.mark.parametrize("number", [65_535, 65_536, 65_537, 70_000])
def test_marks_of_any_number_of_versions_come_back_as_they_were_packed(number: int) -> None:
    keys = np.arange(number)
    back = TileMarks.unpack(TileMarks((ZoomMarks(keys, keys + 10),)).pack())
    assert back.zooms[0].versions.tolist() == (keys + 10).tolist()


def test_marks_that_were_packed_with_wrapped_places_seem_no_older_than_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keys = np.arange(65_600)
    marks = TileMarks((ZoomMarks(keys, keys + 10),))
    monkeypatch.setattr(np, "min_scalar_type", lambda _: np.uint16)
    packed = marks.pack()
    back = TileMarks.unpack(packed).zooms[0]
    assert (back.versions >= marks.zooms[0].versions).all()
    assert back.versions.max() == 65_609


def test_a_change_that_touches_nothing_leaves_all_marks_as_exact_as_they_were() -> None:
    kept, all_before = TWO_CHANGES.with_touched(TouchedTiles.nothing(), 30, 0)
    assert (kept.count, kept.deepest, all_before) == (TWO_CHANGES.count, 1, 0)


def test_marks_of_long_ago_are_forgotten() -> None:
    kept, all_before = TWO_CHANGES.with_touched(touched({(0, 0)}, {(0, 1)}), 30, 15)
    assert all_before == 15
    assert [kept.version_of(1, *tile) for tile in ((0, 0), (1, 1), (0, 1))] == [0, 20, 30]


def test_a_change_of_too_many_tiles_is_told_more_coarsely_and_misses_none() -> None:
    fine = everywhere(4)
    coarse = fine.at_most(100)
    assert coarse.count <= 100
    assert all(coarse.includes(z, x, y) for z in range(7) for x in range(2**z) for y in range(2**z))
    one = touched(*({(2**z // 3, 2**z // 5)} for z in range(9)), below={(85, 51)}).as_deep_as(3)
    assert one.includes(3, 2, 1)
    assert one.includes(8, 85, 51)
    assert not one.includes(3, 3, 1)


def test_too_many_marks_make_all_stale_from_before_the_older_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tile_marks, "MAX_MARKS", 100)
    found, all_before = TileMarks(), 0
    for version in range(1, 21):
        tiles = {(x, version % 16) for x in range(16)}
        found, all_before = found.with_touched(touched({(0, 0)}, set(), set(), set(), tiles), version, all_before)
        assert found.count <= 100
        assert found.version_of(4, 3, version % 16) == version
    assert 10 < all_before < 20


def test_what_several_changes_touch_is_as_coarse_as_the_coarsest() -> None:
    together = join_touched([touched({(0, 0)}, {(0, 1)}, {(0, 3)}), touched({(0, 0)}, {(1, 0)}, below={(1, 0)})])
    assert together.deepest == 1
    assert together.tiles(1) == {(0, 1), (1, 0)}
    assert together.includes(5, 0, 31)
    assert together.includes(5, 31, 0)
    assert not together.includes(5, 31, 31)
    assert not join_touched([])
