import io

import numpy as np
from PIL import Image

from resources.static_map.composing import compose
from resources.static_map.picture import Picture
from resources.tiles.drawing import painting
from resources.tiles.drawing.scene import Scene
from resources.tiles.tile import Tile
from tests.resources.tiles import builders

LINES = builders.scene_of("lines", builders.many_lines(300))
AREAS = builders.scene_of("areas", builders.collection(builders.area("island", builders.square(-1, 51, 1, 52))))


def pixels(file: bytes) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    return np.asarray(Image.open(io.BytesIO(file)).convert("RGBA"))


def picture_of(tile: Tile, image_format: str = "png") -> Picture:
    return Picture(("any",), tile.z, tile.x * 256, tile.y * 256, 256, 256, image_format)


def test_a_picture_of_one_tile_is_that_tile() -> None:
    tile = Tile("any", 10, 511, 340)
    assert (pixels(compose(picture_of(tile), [LINES])) == pixels(painting.paint(LINES, tile))).all()


def test_a_picture_across_tiles_joins_them() -> None:
    left, right = (pixels(painting.paint(LINES, Tile("any", 10, x, 340))) for x in (511, 512))
    both = compose(Picture(("any",), 10, 511 * 256 + 128, 340 * 256, 256, 256), [LINES])
    assert (pixels(both) == np.hstack((left[:, 128:], right[:, :128]))).all()


def test_later_scenes_cover_earlier_ones() -> None:
    tile = Tile("any", 10, 511, 340)
    above, below = (pixels(compose(picture_of(tile), order)) for order in ([AREAS, LINES], [LINES, AREAS]))
    lines, areas = pixels(painting.paint(LINES, tile)), pixels(painting.paint(AREAS, tile))
    opaque = lines[..., 3] == 255
    assert opaque.any()
    assert (above[opaque] == lines[opaque]).all()
    assert (below == areas).all()


def test_where_nothing_is_the_picture_is_transparent() -> None:
    scenes: list[Scene] = [LINES]
    nowhere = Picture(("any",), 3, 0, -300, 100, 50, "webp")
    painted = pixels(compose(nowhere, scenes))
    assert painted.shape == (50, 100, 4)
    assert not painted.any()
