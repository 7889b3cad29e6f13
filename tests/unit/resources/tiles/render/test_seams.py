"""Neighbouring tiles against one big picture painted by the same painter."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from resources.tiles import grid
from resources.tiles.drawing import encoding, painting
from resources.tiles.drawing.scene import Scene
from resources.tiles.tile import Tile
from resources.tiles.window import Window

from .. import builders

SIDE = 3


def long_and_short_lines() -> bytes:
    random = np.random.default_rng(5)
    streets = random.normal([0.02, 51.5], 0.02, (300, 1, 2)) + np.cumsum(random.normal(0, 0.002, (300, 6, 2)), axis=1)
    motorways = np.array([[[-40.0, 20.0], [0.02, 51.5], [60.0, 70.0]], [[-170.0, 51.4], [0.0, 51.52], [170.0, 51.3]]])
    lines: Sequence[list[list[float]]] = [*streets.tolist(), *motorways.tolist()]
    speeds = random.uniform(0, 60, len(lines)).tolist()
    return builders.collection(
        *(builders.line(i, p, speed=s, free_flow=50) for i, (p, s) in enumerate(zip(lines, speeds, strict=True)))
    )


def areas_with_holes() -> bytes:
    random = np.random.default_rng(6)
    angles = np.linspace(0, 2 * np.pi, 200, endpoint=False)

    def ring(x: float, y: float, size: float) -> list[list[float]]:
        radii = size * random.uniform(0.6, 1.0, len(angles))
        points = np.column_stack((x + radii * np.cos(angles), y + radii * np.sin(angles)))
        return np.concatenate((points, points[:1])).tolist()  # type: ignore[no-any-return]

    centres = random.normal([0.02, 51.5], 0.05, (12, 2)).tolist()
    islands = [builders.area(i, ring(x, y, 0.04), ring(x, y, 0.01)) for i, (x, y) in enumerate(centres)]
    continent = builders.area("continent", [[-90, 10], [0.02, 51.49], [80, 30], [10, 80], [-90, 10]])
    return builders.collection(continent, *islands)


def neighbours(scene: Scene, zoom: int, scale: int) -> NDArray[np.uint8]:
    x, y = middle(zoom)
    rows = [
        np.hstack([builders.pixels(painting.paint(scene, Tile("a", zoom, x + i, y + j, scale))) for i in range(SIDE)])
        for j in range(SIDE)
    ]
    return np.vstack(rows)


def one_picture(scene: Scene, zoom: int, scale: int) -> NDArray[np.uint8]:
    x, y = middle(zoom)
    tile = Window.of(Tile("a", zoom, x, y, scale))
    window = Window(tile.level, tile.x, tile.y, SIDE * tile.width, SIDE * tile.height)
    image = painting.draw(scene, window, zoom, scale)
    assert image is not None
    return builders.pixels(encoding.encode(np.asarray(image), scene.style.palette, "png"))


def middle(zoom: int) -> tuple[int, int]:
    [u, v] = grid.project(np.array([[0.02, 51.5]]))[0].tolist()
    return int(u * 2**zoom) - 1, int(v * 2**zoom) - 1


@pytest.mark.parametrize("scale", [1, 2])
@pytest.mark.parametrize("zoom", [3, 8, 11, 13, 16, 20, 22])
@pytest.mark.parametrize("kind", ["lines", "areas"])
def test_neighbours_are_one_big_picture(kind: str, zoom: int, scale: int) -> None:
    if kind == "lines":
        scene = builders.scene_of("lines", long_and_short_lines(), {"widths": {"8": 1.5, "22": 12}})
    else:
        scene = builders.scene_of("areas", areas_with_holes(), {"widths": {"8": 1, "22": 6}})
    tiles, picture = neighbours(scene, zoom, scale), one_picture(scene, zoom, scale)
    assert picture[..., 3].any()
    assert np.array_equal(tiles, picture)
