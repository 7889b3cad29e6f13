"""Costs and widths of blocks."""

from collections import Counter
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.tiles import grid, metatiles
from resources.tiles.data import compiler
from resources.tiles.errors import LayerError
from resources.tiles.metatiles import MetatileCost, MetatileSizing
from tests.support import geojson

BOUND = 0.5


@pytest.mark.parametrize(
    ("costs", "side"),
    [
        ({1: MetatileCost(0.01, 1)}, 1),
        ({1: MetatileCost(0.01, 1), 2: MetatileCost(0.03, 4)}, 2),
        ({1: MetatileCost(0.01, 1), 2: MetatileCost(0.045, 4)}, 1),  # saves too little
        ({1: MetatileCost(0.01, 1), 2: MetatileCost(0.03, 1)}, 1),  # only one tile shows anything
        ({1: MetatileCost(0.3, 1), 2: MetatileCost(0.51, 4)}, 1),  # too long
        ({1: MetatileCost(0.9, 1), 2: MetatileCost(0.9, 4)}, 1),  # even one tile is too long
        ({1: MetatileCost(0.1, 1), 2: MetatileCost(0.11, 4), 4: MetatileCost(0.14, 16), 8: MetatileCost(0.3, 64)}, 8),
        (
            {1: MetatileCost(0.1, 1), 2: MetatileCost(0.5, 4), 4: MetatileCost(0.14, 16)},
            1,
        ),  # ends at the first that does not pay
        ({1: MetatileCost(0.1, 1), 4: MetatileCost(0.14, 16)}, 1),  # and at the first that was not measured
        ({1: MetatileCost(0.0, 0), 2: MetatileCost(0.0, 0)}, 1),
    ],
)
def test_the_largest_side_that_pays_within_the_bound_is_chosen(costs: Mapping[int, MetatileCost], side: int) -> None:
    assert metatiles.choose_side(costs, BOUND) == side


class Clock:
    """Goes on by so many seconds each time it is read."""

    def __init__(self, step_seconds: float) -> None:
        self.now, self.step_seconds = 0.0, step_seconds

    def __call__(self) -> float:
        self.now += self.step_seconds
        return self.now


LINES = compiler.compile_layer("lines", geojson.many_lines(1500))


def sides(step_seconds: float, style: Mapping[str, object] = {}, bound_seconds: float = BOUND) -> Mapping[int, int]:
    return MetatileSizing(style, 5, 14, bound_seconds).size(LINES, Clock(step_seconds)).metatiles


def test_zooms_at_which_the_whole_layer_is_one_tile_need_no_blocks_and_no_measuring() -> None:
    around = grid.Bounds(10.0, 45.0, 11.0, 46.0)
    scene = geojson.scene_of("lines", geojson.collection(geojson.line(1, [[10.2, 45.2], [10.8, 45.8]])))
    clock = Clock(0.1)
    found = metatiles.measure_sides(scene, around, 0.0, range(5), bound_seconds=BOUND, clock=clock)
    assert found == dict.fromkeys(range(5), 1)
    assert clock.now == pytest.approx(0.1)


def test_zooms_beyond_the_one_at_which_a_tile_costs_next_to_nothing_are_not_measured() -> None:
    found = sides(metatiles.CHEAP_TILE_SECONDS / 2)
    last = max(found)
    assert last < 14
    assert found[last] > 1


def test_measuring_ends_in_time_and_leaves_the_other_zooms_out() -> None:
    found = sides(0.2)
    assert found
    assert set(found) == set(range(5, max(found) + 1))
    assert max(found) < 14
    assert found[max(found)] == 1  # a tile takes 0.2 s: two by two would be too long


class LateClock(Clock):
    """Stands almost still, but for one reading, at which the machine was busy."""

    def __init__(self, late_at: int) -> None:
        super().__init__(0.000_01)
        self.left = late_at

    def __call__(self) -> float:
        self.left -= 1
        self.now += 10 if self.left == 0 else 0
        return super().__call__()


@pytest.mark.parametrize("late_at", range(1, 15))
def test_measuring_may_be_interrupted_at_any_time(late_at: int) -> None:
    assert MetatileSizing({}, 11, 12, BOUND).size(LINES, LateClock(late_at)).metatiles


def test_nothing_is_measured_without_a_bound() -> None:
    assert sides(0.001, bound_seconds=0) == {}


def test_a_style_of_another_kind_is_refused() -> None:
    with pytest.raises(LayerError, match="radius"):
        sides(0.001, {"radius": 3})


@pytest.mark.parametrize("kind", ["areas", "points"])
def test_layers_of_all_kinds_are_measured(kind: str) -> None:
    if kind == "areas":
        compiled = compiler.compile_layer("areas", geojson.collection(geojson.area(1, geojson.square(-1, 50, 1, 52))))
    else:
        compiled = compiler.compile_layer("points", geojson.many_points(500))
    found = MetatileSizing({}, 3, 9, BOUND).size(compiled, Clock(0.004)).metatiles
    assert set(found) <= set(range(3, 10))
    assert set(found.values()) <= {1, 2, 4, 8}


place = st.tuples(st.floats(-0.5, 1.5), st.floats(0, 1, exclude_max=True))


@given(st.lists(place, min_size=1, max_size=30), st.integers(0, 22))
def test_the_densest_tile_has_as_many_positions_as_any(places: list[tuple[float, float]], zoom: int) -> None:
    tiles = Counter((min(int(u % 1.0 * 2**zoom), 2**zoom - 1), int(v * 2**zoom)) for u, v in places)
    [found] = metatiles.densest_tiles(np.array(places), [zoom])
    assert found.zoom == zoom
    assert tiles[found.x, found.y] == max(tiles.values())
    assert found.share == pytest.approx(max(tiles.values()) / len(places))


def test_positions_beyond_the_maps_edge_count_for_the_last_row() -> None:
    beyond = np.array([[0.3, 1.7], [0.3, 1.9], [0.3, 0.1]])
    [found] = metatiles.densest_tiles(beyond, [2])
    assert (found.x, found.y) == (1, 3)


def test_of_many_positions_some_are_looked_at() -> None:
    random = np.random.default_rng(1)
    city = random.normal([0.56, 0.4], 0.001, (3 * metatiles.MAX_SAMPLES, 2))
    [found] = metatiles.densest_tiles(np.concatenate((random.random((1000, 2)), city)), [4])
    assert (found.x, found.y) == (8, 6)
    assert 0.99 < found.share < 1
