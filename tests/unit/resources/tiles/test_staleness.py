"""Parts of layers that expired: exact while they are few, a superset and bounded when they are many."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.tiles import grid, staleness, tile_address, work
from resources.tiles.errors import LayerError
from resources.tiles.models import Layer
from resources.tiles.staleness import Expiration, LayerPart

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
