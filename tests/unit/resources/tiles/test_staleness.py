from typing import Any

import mercantile
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.models import Layer
from resources.tiles import blocks, expirations, grid
from resources.tiles.errors import LayerError, UnknownLayerError
from resources.tiles.expirations import Expiration, Part
from resources.tiles.keeping import expiring
from resources.tiles.layers import LayerView

from .conftest import Load

LONDON = Part(grid.Bounds(-0.5, 51.3, 0.3, 51.7), 8, 12)
FIJI = Part(grid.Bounds(177.0, -19.0, -178.0, -16.0))
DAY_SECONDS = 86_400
PADDING = 0.125


def lowest(*rules: Expiration, at: tuple[int, int, int]) -> int:
    return expirations.lowest_fresh(10, rules, at, PADDING)


@pytest.mark.parametrize(
    ("z", "x", "y", "stale"),
    [(10, 511, 340, True), (8, 127, 85, True), (7, 63, 42, False), (13, 4093, 2724, False), (10, 600, 340, False)],
)
def test_a_part_is_its_box_at_its_zooms(z: int, x: int, y: int, stale: bool) -> None:
    assert lowest(Expiration(20, LONDON), at=(z, x, y)) == (20 if stale else 10)


@pytest.mark.parametrize(("x", "stale"), [(0, True), (15, True), (14, False), (1, False), (8, False)])
def test_a_part_goes_on_beyond_the_antimeridian(x: int, stale: bool) -> None:
    assert lowest(Expiration(20, FIJI), at=(4, x, 8)) == (20 if stale else 10)


def test_the_newest_part_that_a_tile_touches_counts() -> None:
    rules = Expiration(20, LONDON), Expiration(30, FIJI), Expiration(25, LONDON), Expiration(5, LONDON)
    assert lowest(*rules, at=(10, 511, 340)) == 25


@given(st.integers(0, 12), st.data())
def test_a_block_is_stale_when_one_of_its_tiles_is(z: int, data: st.DataObject) -> None:
    side = data.draw(st.sampled_from([side for side in blocks.SIDES if side <= 2**z]))
    x, y = (data.draw(st.integers(0, 2**z // side - 1)) for _ in "xy")
    west, east = sorted(data.draw(st.tuples(st.floats(-180, 180), st.floats(-180, 180))))
    south, north = sorted(data.draw(st.tuples(st.floats(-85, 85), st.floats(-85, 85))))
    padding = data.draw(st.sampled_from([0.125, 0.25, 0.0]))
    expired = Expiration(9, Part(grid.Bounds(west, south, east, north), 3, 11))
    tiles = [(x * side + i, y * side + j) for i in range(side) for j in range(side)]
    assert expired.touches((z, x, y), padding, side) == any(expired.touches((z, *tile), padding) for tile in tiles)


@pytest.mark.parametrize(("gap", "padding", "stale"), [(0.1, 0.125, True), (0.2, 0.125, False), (0.2, 0.25, True)])
def test_a_tile_beside_the_part_that_its_strokes_reach_into_is_stale_too(
    gap: float, padding: float, stale: bool
) -> None:
    west, south, east, north = mercantile.bounds(511, 340, 10)
    start = east + gap * (east - west)
    rule = Expiration(20, Part(grid.Bounds(start, south, start + 0.1, north)))
    assert rule.touches((10, 511, 340), padding) is stale


@pytest.mark.parametrize(
    ("bounds", "zooms"),
    [
        ([1, 2, 3], ()),
        ([0, 0, 999, 1], ()),
        ([0, 0, float("nan"), 1], ()),
        ("0,0,1,1", ()),
        (None, (5, 4)),
        (None, (-1, 4)),
        (None, (0, 23)),
    ],
)
def test_what_is_no_part_is_refused(bounds: Any, zooms: tuple[int, ...]) -> None:
    with pytest.raises(LayerError):
        Part.of(bounds, *zooms)


def test_who_names_no_part_means_all() -> None:
    assert Part.of() is None
    assert Part.of(min_zoom=3) == Part(grid.WORLD, 3, grid.MAX_ZOOM)


def kept_after(count: int, servable_seconds: float = DAY_SECONDS) -> tuple[list[Any], int]:
    """What a row keeps after so many different parts expired, a second apart."""
    kept: list[Any] = []
    data_version = 1
    for number in range(1, count + 1):
        part = Part(grid.Bounds(0, 0, number / 10, 1))
        rule = Expiration(number * 1_000_000, part)
        kept, data_version = expirations.with_one_more(kept, data_version, rule, servable_seconds)
    return kept, data_version


def test_of_many_parts_the_oldest_become_all_of_the_layer() -> None:
    kept, data_version = kept_after(expirations.MOST + 3)
    assert len(kept) == expirations.MOST
    assert data_version == 3_000_000
    assert [rule["version"] for rule in kept] == sorted(rule["version"] for rule in kept)


def test_parts_that_nothing_served_is_older_than_are_forgotten() -> None:
    kept, _ = kept_after(10)
    late = Expiration(int((DAY_SECONDS + expirations.PAINTING_SECONDS + 5) * 1e6), LONDON)
    kept, data_version = expirations.with_one_more(kept, 1, late, DAY_SECONDS)
    assert [rule["version"] // 1_000_000 for rule in kept[:-1]] == [6, 7, 8, 9, 10]
    assert data_version == 1


def test_the_same_part_again_takes_the_place_of_the_first() -> None:
    kept, _ = expirations.with_one_more([Expiration(20, LONDON).as_dict()], 10, Expiration(30, LONDON), DAY_SECONDS)
    assert kept == [Expiration(30, LONDON).as_dict()]


boxes = st.tuples(st.floats(-180, 180), st.floats(-85, 84), st.floats(-180, 180), st.floats(0, 1)).map(
    lambda box: grid.Bounds(box[0], box[1], box[2], box[1] + box[3])
)
parts = st.tuples(boxes, st.integers(0, 9), st.integers(9, 22)).map(lambda each: Part(*each))
addresses = st.integers(0, 22).flatmap(
    lambda z: st.tuples(st.just(z), st.integers(0, 2**z - 1), st.integers(0, 2**z - 1))
)


@given(named=st.lists(parts, max_size=expirations.MOST + 20), address=addresses)
def test_however_many_parts_expire_no_tile_of_them_is_taken_for_fresh(
    named: list[Part], address: tuple[int, int, int]
) -> None:
    kept: list[Any] = []
    data_version, wanted = 10, 10
    for version, part in enumerate(named, start=11):
        rule = Expiration(version, part)
        kept, data_version = expirations.with_one_more(kept, data_version, rule, DAY_SECONDS)
        wanted = version if rule.touches(address, PADDING) else wanted
    assert expirations.lowest_fresh(data_version, map(Expiration.parse, kept), address, PADDING) >= wanted


def test_a_part_expires_and_the_rest_of_the_layer_stays_fresh(load: Load) -> None:
    before = load()
    expiring.expire("jams", LONDON)
    after = Layer.objects.get()
    assert after.data_version == before.data_version
    assert after.version > before.version
    view = LayerView.of(after)
    assert view.version_for(10, 511, 340) == after.version
    assert view.version_for(10, 600, 340) == view.version_for(7, 63, 42) == before.version


def test_all_of_a_layer_expires_and_its_parts_are_forgotten(load: Load) -> None:
    load()
    expiring.expire("jams", LONDON)
    expiring.expire("jams")
    after = Layer.objects.get()
    assert (after.expirations, after.data_version) == ([], after.version)


def test_a_layer_that_is_saved_with_parts_that_expired_starts_anew(load: Load) -> None:
    load()
    layer = expiring.expire("jams", LONDON)
    layer.save()
    after = Layer.objects.get()
    assert (after.expirations, after.data_version) == ([], after.version)


def test_nothing_else_is_saved_with_an_expiry(load: Load) -> None:
    layer = load()
    Layer.objects.update(title="Changed meanwhile")
    layer.expire(LONDON)
    assert Layer.objects.get().title == "Changed meanwhile"


def test_a_layer_that_is_not_there_cannot_expire(db: None) -> None:
    with pytest.raises(UnknownLayerError):
        expiring.expire("nowhere", LONDON)
