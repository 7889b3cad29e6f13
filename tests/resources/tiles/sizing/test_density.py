from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.tiles.sizing import density

place = st.tuples(st.floats(-0.5, 1.5), st.floats(0, 1, exclude_max=True))


@given(st.lists(place, min_size=1, max_size=30), st.integers(0, 22))
def test_the_densest_tile_has_as_many_positions_as_any(places: list[tuple[float, float]], zoom: int) -> None:
    tiles = Counter((min(int(u % 1.0 * 2**zoom), 2**zoom - 1), int(v * 2**zoom)) for u, v in places)
    [found] = density.densest_tiles(np.array(places), [zoom])
    assert found.zoom == zoom
    assert tiles[found.x, found.y] == max(tiles.values())
    assert found.share == pytest.approx(max(tiles.values()) / len(places))


def test_positions_beyond_the_maps_edge_count_for_the_last_row() -> None:
    beyond = np.array([[0.3, 1.7], [0.3, 1.9], [0.3, 0.1]])
    [found] = density.densest_tiles(beyond, [2])
    assert (found.x, found.y) == (1, 3)


def test_of_many_positions_some_are_looked_at() -> None:
    random = np.random.default_rng(1)
    city = random.normal([0.56, 0.4], 0.001, (3 * density.SAMPLES, 2))
    [found] = density.densest_tiles(np.concatenate((random.random((1000, 2)), city)), [4])
    assert (found.x, found.y) == (8, 6)
    assert 0.99 < found.share < 1
