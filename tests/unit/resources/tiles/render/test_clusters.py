"""Clusters of points: membership, distance, and their discs with counts."""

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resources.tiles.data import arrays
from resources.tiles.data.arrays import GLOBE_UNITS, Points
from resources.tiles.render import clusters
from resources.tiles.render.clusters import Clusters
from tests.support import geojson
from tests.support.geojson import collection, point

RADIUS = 48.0

places = st.integers(0, GLOBE_UNITS - 1)
near_the_seam = st.integers(-(GLOBE_UNITS >> 12), GLOBE_UNITS >> 12).map(lambda x: x % GLOBE_UNITS)
some_points = st.lists(st.tuples(places | near_the_seam, places | st.just(0) | st.just(GLOBE_UNITS - 1)), min_size=1)


def points_at(given_places: list[tuple[int, int]]) -> Points:
    placed = np.array(given_places, np.int64)
    return Points(placed[:, 0], placed[:, 1], np.ones(len(placed)))


def rows(found: Clusters) -> list[tuple[int, ...]]:
    return list(zip(found.x.tolist(), found.y.tolist(), found.counts.tolist(), strict=True))


@settings(max_examples=50)
@given(some_points, st.integers(0, 22), st.sampled_from([20.0, 48.0, 133.0, 200.0]))
def test_every_point_is_in_one_cluster_of_a_zoom(given_places: list[tuple[int, int]], zoom: int, radius: float) -> None:
    found = clusters.cluster_points(points_at(given_places), zoom, radius)
    assert int(found.counts.sum()) == len(given_places)
    assert (found.counts > 0).all()
    assert ((found.x >= 0) & (found.x < GLOBE_UNITS) & (found.y >= 0) & (found.y < GLOBE_UNITS)).all()


@settings(max_examples=50)
@given(some_points, st.randoms(use_true_random=False), st.integers(0, 12))
def test_the_order_of_points_does_not_matter(given_places: list[tuple[int, int]], random: Random, zoom: int) -> None:
    shuffled = given_places.copy()
    random.shuffle(shuffled)
    assert rows(clusters.cluster_points(points_at(given_places), zoom, RADIUS)) == rows(
        clusters.cluster_points(points_at(shuffled), zoom, RADIUS)
    )


@given(st.tuples(places, places), st.integers(0, 10), st.integers(0, 3), near_the_seam)
def test_two_points_join_alike_wherever_maps_end(place: tuple[int, int], zoom: int, quarters: int, apart: int) -> None:
    def counts(turn: int) -> list[int]:
        west, east = (((place[0] + turn + step) % GLOBE_UNITS, place[1]) for step in (0, apart))
        found: list[int] = clusters.cluster_points(points_at([west, east]), zoom, 64.0).counts.tolist()
        return found

    assert counts(0) == counts(quarters * GLOBE_UNITS // 4)


def test_points_far_from_each_other_stay_alone() -> None:
    placed = geojson.points_of(collection(*(point(None, [lon, 0]) for lon in (-120, 0, 120))))
    assert clusters.cluster_points(placed, 0, RADIUS).counts.tolist() == [1, 1, 1]


def test_points_on_both_sides_of_the_antimeridian_join_there() -> None:
    placed = geojson.points_of(collection(*(point(None, [lon, 10]) for lon in (179, 179.5, -179, -179.5))))
    [(x, _, count)] = rows(clusters.cluster_points(placed, 2, RADIUS))
    assert count == 4
    assert abs(arrays.wrap_steps(np.array([x]))[0]) <= 1


def test_points_at_one_place_are_one_cluster_at_every_zoom() -> None:
    placed = geojson.points_of(collection(*(point(None, [12.5, 41.9]) for _ in range(30))))
    for zoom in range(23):
        assert rows(clusters.cluster_points(placed, zoom, RADIUS)) == [(int(placed.x[0]), int(placed.y[0]), 30)]


def test_clusters_keep_apart_so_that_their_discs_do_not_hide_each_other() -> None:
    placed = geojson.points_of(geojson.many_points(5_000))
    for zoom in (3, 7):
        found = clusters.cluster_points(placed, zoom, RADIUS)
        as_pixels = np.column_stack((found.x, found.y)) / (1 << (arrays.GLOBE_BITS - 8 - zoom))
        distances = np.hypot(*(as_pixels[:, None] - as_pixels[None, :]).transpose(2, 0, 1))
        nearest = np.where(np.eye(len(distances), dtype=bool), np.inf, distances).min(axis=1)
        assert (nearest < RADIUS / 2).mean() < 0.01
        assert np.median(nearest) > RADIUS


def test_a_long_row_of_equal_points_is_clustered_in_few_rounds() -> None:
    x = np.arange(100_000, dtype=np.int64) << 8
    row = Points(x, np.full(len(x), GLOBE_UNITS // 2), np.ones(len(x)))
    assert int(clusters.cluster_points(row, 18, RADIUS).counts.sum()) == 100_000


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (2, "2"), (999, "999"), (1000, "1k"), (1099, "1k"), (1200, "1.2k"), (9999, "9.9k"), (10_000, "10k"),
        (999_999, "999k"), (1_000_000, "1M"), (1_250_000, "1.2M"), (43_000_000, "43M"),
    ],
)  # fmt: skip
def test_counts_are_written_short_and_never_too_large(count: int, text: str) -> None:
    assert clusters.abbreviate_count(count) == text


@pytest.mark.parametrize("scale", [1, 2])
@pytest.mark.parametrize("count", [2, 10, 88, 888, 8800, 888_000, 8_800_000])
@pytest.mark.parametrize("radius", [20, 48, 200])
def test_a_number_fits_its_disc(count: int, scale: int, radius: int) -> None:
    stamp = clusters.make_stamp(count, radius, scale)
    rows_written, columns_written = np.nonzero(stamp == 6)
    assert len(rows_written)
    assert ((rows_written - len(stamp) // 2) ** 2 + (columns_written - len(stamp) // 2) ** 2).max() < (
        len(stamp) / 2
    ) ** 2
    assert abs(float(columns_written.min() + columns_written.max()) / 2 - len(stamp) // 2) <= 2
