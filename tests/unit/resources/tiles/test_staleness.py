"""Sets of tiles and their versions: exact while they are few, a superset and bounded when they are many."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.tiles import grid, staleness, tile_address, work
from resources.tiles.errors import LayerError
from resources.tiles.models import Layer
from resources.tiles.staleness import Expiration, LayerPart, TileMarks, TouchedTiles, ZoomMarks, join_touched

from ..conftest import Load

LONDON = LayerPart(grid.Bounds(-0.5, 51.3, 0.3, 51.7), 8, 12)
DAY_SECONDS = 86_400
PADDING = 0.125


def lowest(*rules: Expiration, at: tuple[int, int, int]) -> int:
    return staleness.lowest_fresh_version(10, rules, at, PADDING)


@pytest.mark.parametrize(
    ("z", "x", "y", "stale"),
    [(10, 511, 340, True), (8, 127, 85, True), (7, 63, 42, False), (13, 4093, 2724, False), (10, 600, 340, False)],
)
def test_a_part_is_its_box_at_its_zooms(z: int, x: int, y: int, stale: bool) -> None:
    assert lowest(Expiration(20, LONDON), at=(z, x, y)) == (20 if stale else 10)


@given(st.integers(0, 12), st.data())
def test_a_block_is_stale_when_one_of_its_tiles_is(z: int, data: st.DataObject) -> None:
    side = data.draw(st.sampled_from([side for side in tile_address.METATILE_SIDES if side <= 2**z]))
    x, y = (data.draw(st.integers(0, 2**z // side - 1)) for _ in "xy")
    west, east = sorted(data.draw(st.tuples(st.floats(-180, 180), st.floats(-180, 180))))
    south, north = sorted(data.draw(st.tuples(st.floats(-85, 85), st.floats(-85, 85))))
    padding = data.draw(st.sampled_from([0.125, 0.25, 0.0]))
    expired = Expiration(9, LayerPart(grid.Bounds(west, south, east, north), 3, 11))
    tiles = [(x * side + i, y * side + j) for i in range(side) for j in range(side)]
    assert expired.touches((z, x, y), padding, side) == any(expired.touches((z, *tile), padding) for tile in tiles)


@pytest.mark.parametrize(("gap", "padding", "stale"), [(0.1, 0.125, True), (0.2, 0.125, False), (0.2, 0.25, True)])
def test_a_tile_beside_the_part_that_strokes_reach_into_is_stale(gap: float, padding: float, stale: bool) -> None:
    west, south, east, north = grid.tile_bounds(10, 511, 340).as_list()
    start = east + gap * (east - west)
    rule = Expiration(20, LayerPart(grid.Bounds(start, south, start + 0.1, north)))
    assert rule.touches((10, 511, 340), padding) is stale


@pytest.mark.parametrize(("bounds", "zooms"), [([1, 2, 3], ()), (None, (5, 4)), (None, (-1, 4)), (None, (0, 23))])
def test_a_bad_part_is_refused(bounds: Any, zooms: tuple[int, ...]) -> None:
    with pytest.raises(LayerError):
        LayerPart.of(bounds, *zooms)


def test_no_named_part_means_all_of_the_layer() -> None:
    assert LayerPart.of() is None
    assert LayerPart.of(min_zoom=3) == LayerPart(grid.WORLD, 3, grid.MAX_ZOOM)


def kept_after(count: int, servable_seconds: float = DAY_SECONDS) -> tuple[list[Any], int]:
    """The row's record after so many different parts expired, a second apart."""
    kept: list[Any] = []
    data_version = 1
    for number in range(1, count + 1):
        part = LayerPart(grid.Bounds(0, 0, number / 10, 1))
        rule = Expiration(number * 1_000_000, part)
        kept, data_version = staleness.add_expiration(kept, data_version, rule, servable_seconds)
    return kept, data_version


def test_of_many_parts_the_oldest_become_all_of_the_layer() -> None:
    kept, data_version = kept_after(staleness.MAX_EXPIRATIONS + 3)
    assert len(kept) == staleness.MAX_EXPIRATIONS
    assert data_version == 3_000_000
    assert [rule["version"] for rule in kept] == sorted(rule["version"] for rule in kept)


def test_parts_that_nothing_served_is_older_than_are_forgotten() -> None:
    kept, _ = kept_after(10)
    late = Expiration(int((DAY_SECONDS + staleness.MAX_PAINTING_SECONDS + 5) * 1e6), LONDON)
    kept, data_version = staleness.add_expiration(kept, 1, late, DAY_SECONDS)
    assert [rule["version"] // 1_000_000 for rule in kept[:-1]] == [6, 7, 8, 9, 10]
    assert data_version == 1


def test_the_same_part_again_takes_the_place_of_the_first() -> None:
    kept, _ = staleness.add_expiration([Expiration(20, LONDON).as_dict()], 10, Expiration(30, LONDON), DAY_SECONDS)
    assert kept == [Expiration(30, LONDON).as_dict()]


boxes = st.tuples(st.floats(-180, 180), st.floats(-85, 84), st.floats(-180, 180), st.floats(0, 1)).map(
    lambda box: grid.Bounds(box[0], box[1], box[2], box[1] + box[3])
)
parts = st.tuples(boxes, st.integers(0, 9), st.integers(9, 22)).map(lambda each: LayerPart(*each))
addresses = st.integers(0, 22).flatmap(
    lambda z: st.tuples(st.just(z), st.integers(0, 2**z - 1), st.integers(0, 2**z - 1))
)


@given(named=st.lists(parts, max_size=staleness.MAX_EXPIRATIONS + 20), address=addresses)
def test_no_tile_of_many_expired_parts_seems_fresh(named: list[LayerPart], address: tuple[int, int, int]) -> None:
    kept: list[Any] = []
    data_version, wanted = 10, 10
    for version, part in enumerate(named, start=11):
        rule = Expiration(version, part)
        kept, data_version = staleness.add_expiration(kept, data_version, rule, DAY_SECONDS)
        wanted = version if rule.touches(address, PADDING) else wanted
    assert staleness.lowest_fresh_version(data_version, map(Expiration.parse, kept), address, PADDING) >= wanted


@pytest.mark.parametrize("renew", [lambda _: work.expire_layer("jams"), Layer.save], ids=["expired", "saved"])
def test_a_layer_that_expires_or_is_saved_whole_forgets_its_parts(load: Load, renew: Callable[[Layer], object]) -> None:
    load()
    renew(work.expire_layer("jams", LONDON))
    after = Layer.objects.get()
    assert (after.expirations, after.data_version) == ([], after.version)


def test_nothing_else_is_saved_with_an_expiry(load: Load) -> None:
    layer = load()
    Layer.objects.update(title="Changed meanwhile")
    layer.expire(LONDON)
    assert Layer.objects.get().title == "Changed meanwhile"


places = st.integers(0, 2**22 - 1)


def touched(*zooms: set[tuple[int, int]], below: set[tuple[int, int]] = frozenset()) -> TouchedTiles:  # type: ignore[assignment]
    return TouchedTiles(tuple(map(keys, zooms)), keys(below))


def keys(tiles: set[tuple[int, int]]) -> grid.TileKeys:
    return np.unique(np.array([grid.tile_key(x, y) for x, y in tiles], np.int64))


def everywhere(zoom: int) -> TouchedTiles:
    return TouchedTiles(tuple(np.arange(4**z) for z in range(zoom + 1)))


TWO_CHANGES = TileMarks().with_touched(touched({(0, 0)}, {(0, 0), (1, 1)}), 10, 0)[0]
TWO_CHANGES = TWO_CHANGES.with_touched(touched({(0, 0)}, {(1, 1)}, below={(1, 1)}), 20, 0)[0]


@given(st.lists(st.tuples(places, places), min_size=1))
def test_a_tiles_number_leads_back_to_it_and_its_parents_to_what_covers_it(tiles: list[tuple[int, int]]) -> None:
    x, y = (np.array(each, np.int64) for each in zip(*tiles, strict=True))
    numbers = grid.tile_keys(x, y)
    assert numbers.tolist() == [grid.tile_key(*tile) for tile in tiles]
    assert [each.tolist() for each in grid.key_places(numbers)] == [x.tolist(), y.tolist()]
    assert [each.tolist() for each in grid.key_places(numbers >> 2)] == [(x >> 1).tolist(), (y >> 1).tolist()]


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
    monkeypatch.setattr(staleness, "MAX_MARKS", 100)
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
