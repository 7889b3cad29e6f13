"""Scenes: geometry thinned for a zoom, and the cache of last used values."""

import numpy as np
import shapely
from hypothesis import given
from hypothesis import strategies as st

from resources.tiles.data import arrays, geojson
from resources.tiles.render import scene
from resources.tiles.render.scene import LastUsedCache
from tests.support.geojson import collection, line, many_lines


def compiled(data: bytes) -> arrays.Geometry:
    return arrays.compile_geometry(geojson.read_features(data, "lines"))


def test_what_is_taken_alone_is_what_the_whole_level_holds() -> None:
    found = compiled(many_lines(400))
    parts = np.array([3, 77, 200, 399])
    for level in (4, 9, 14, 23):
        whole = scene.simplify_lines(found.coordinates, found.offsets, level).take(parts)
        rows, offsets = scene.gather_rows(found.offsets, parts)
        alone = scene.simplify_lines(found.coordinates[rows], offsets, level)
        assert np.array_equal(alone.coordinates, whole.coordinates)
        assert np.array_equal(alone.offsets, whole.offsets)
        assert np.array_equal(scene.GeometryLevels(found).take(level, parts).coordinates, whole.coordinates)


def test_ends_stay_and_lines_move_by_less_than_a_pixel() -> None:
    angles = np.linspace(0, 3, 8_000)
    found = compiled(collection(line(1, np.column_stack((np.cos(angles), np.sin(angles))).tolist())))
    for level in (5, 8, 11):
        thinned = scene.simplify_lines(found.coordinates, found.offsets, level)
        exact = found.coordinates * (512 << level)
        assert len(thinned.coordinates) < 3000
        assert np.abs(thinned.coordinates[[0, -1]] - exact[[0, -1]]).max() <= 0.5
        assert shapely.hausdorff_distance(*map(shapely.linestrings, (thinned.coordinates, exact))) < 1.5


def test_a_feature_smaller_than_a_pixel_keeps_one_row() -> None:
    found = compiled(collection(line(1, [[0, 51], [0.00001, 51], [0.00002, 51]]), line(2, [[0, 51], [40, 60]])))
    assert scene.simplify_lines(found.coordinates, found.offsets, 0).offsets.tolist() == [0, 1, 3]


@given(st.lists(st.integers(0, 5), min_size=1, max_size=10), st.data())
def test_gathering_is_concatenating(lengths: list[int], data: st.DataObject) -> None:
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    chosen = data.draw(st.lists(st.integers(0, len(lengths) - 1)))
    rows, taken = scene.gather_rows(offsets, np.array(chosen, dtype=np.int64))
    expected = [list(range(offsets[i], offsets[i + 1])) for i in chosen]
    assert rows.tolist() == [row for stretch in expected for row in stretch]
    assert np.diff(taken).tolist() == [len(stretch) for stretch in expected]


def test_a_value_is_made_once_and_the_one_used_longest_ago_goes_first() -> None:
    kept: LastUsedCache[str] = LastUsedCache()
    assert kept.get("a", lambda: "A", most=2) == "A"
    assert kept.get("b", lambda: "B", most=2) == "B"
    assert kept.get("a", lambda: "again", most=2) == "A"
    kept.get("c", lambda: "C", most=2)
    assert [kept.find(key) for key in "abc"] == ["A", None, "C"]
