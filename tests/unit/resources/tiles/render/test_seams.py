"""Neighbouring tiles against one big picture painted by the same painter."""

from collections.abc import Sequence

import numpy as np
import pytest

from tests.support import geojson
from tests.support.picture_comparison import neighbours, one_picture, place_of


def long_and_short_lines() -> bytes:
    random = np.random.default_rng(5)
    streets = random.normal([0.02, 51.5], 0.02, (300, 1, 2)) + np.cumsum(random.normal(0, 0.002, (300, 6, 2)), axis=1)
    motorways = np.array([[[-40.0, 20.0], [0.02, 51.5], [60.0, 70.0]], [[-170.0, 51.4], [0.0, 51.52], [170.0, 51.3]]])
    lines: Sequence[list[list[float]]] = [*streets.tolist(), *motorways.tolist()]
    speeds = random.uniform(0, 60, len(lines)).tolist()
    return geojson.collection(
        *(geojson.line(i, p, speed=s, free_flow=50) for i, (p, s) in enumerate(zip(lines, speeds, strict=True)))
    )


def areas_with_holes() -> bytes:
    random = np.random.default_rng(6)
    angles = np.linspace(0, 2 * np.pi, 200, endpoint=False)

    def ring(x: float, y: float, size: float) -> list[list[float]]:
        radii = size * random.uniform(0.6, 1.0, len(angles))
        points = np.column_stack((x + radii * np.cos(angles), y + radii * np.sin(angles)))
        return np.concatenate((points, points[:1])).tolist()  # type: ignore[no-any-return]

    centres = random.normal([0.02, 51.5], 0.05, (12, 2)).tolist()
    islands = [geojson.area(i, ring(x, y, 0.04), ring(x, y, 0.01)) for i, (x, y) in enumerate(centres)]
    continent = geojson.area("continent", [[-90, 10], [0.02, 51.49], [80, 30], [10, 80], [-90, 10]])
    return geojson.collection(continent, *islands)


@pytest.mark.parametrize("scale", [1, 2])
@pytest.mark.parametrize("zoom", [3, 8, 11, 13, 16, 20, 22])
@pytest.mark.parametrize("kind", ["lines", "areas"])
def test_neighbours_are_one_big_picture(kind: str, zoom: int, scale: int) -> None:
    if kind == "lines":
        scene = geojson.scene_of("lines", long_and_short_lines(), {"widths": {"8": 1.5, "22": 12}})
    else:
        scene = geojson.scene_of("areas", areas_with_holes(), {"widths": {"8": 1, "22": 6}})
    corner = place_of(0.02, 51.5, zoom)
    tiles, picture = (show(scene, zoom, corner, (3, 3), scale) for show in (neighbours, one_picture))
    assert picture[..., 3].any()
    assert np.array_equal(tiles, picture)
