"""Paints one tile of a scene with Pillow. PURE; does not load layers or store tiles.

The canvas holds index colours at twice the size. Each class of lines is drawn in one colour over
the better ones, so that within a class the order does not matter and neighbours agree.
"""

from functools import cache

import numpy as np
from PIL import Image, ImageDraw

from . import colours, encoding, fills, strokes
from .point_scene import PointScene
from .scene import Scene
from .simplifying import Indexes, Lines, gather
from .tile import Tile
from .window import Window

SUPERSAMPLING = 2


@cache
def empty_tile(scale: int, image_format: str) -> bytes:
    """The file of a tile that shows nothing: one for all layers and places."""
    side = 256 * SUPERSAMPLING * scale
    return encoding.encode(np.zeros((side, side), np.uint8), ((0, 0, 0, 0),), image_format)


def paint(scene: Scene | PointScene, tile: Tile) -> bytes:
    """The tile's image file; the shared empty one when nothing of the scene is on it."""
    image = draw(scene, Window.of(tile), tile.z, tile.scale)
    if image is None or image.getbbox() is None:
        return empty_tile(tile.scale, tile.format)
    return encoding.encode(np.asarray(image), scene.style.palette, tile.format)


def draw(scene: Scene | PointScene, window: Window, zoom: int, scale: int) -> Image.Image | None:
    """The index colours of a window, as large as it is; None when no geometry is near. The style is that of `zoom`."""
    if isinstance(scene, PointScene):
        return scene.draw(window, zoom, scale)
    width = strokes.odd_width(scene.style.width_at(zoom) * SUPERSAMPLING * scale)
    reach = width / 2 + 4
    image: Image.Image | None = None
    for turn in window.turns(0.0, scene.index.east, reach):
        groups = scene.index.groups_within(*window.unit_box(reach, turn))
        if len(groups):
            image = image or Image.new("L", window.canvas_size)
            seen = _Seen(scene, window, turn, groups)
            seen.draw_areas(image, width) if scene.kind == "areas" else seen.draw_lines(image, width)
    return image and image.crop(window.on_canvas_box)


class _Seen:
    """The groups of a scene that a window may show, `turn` turns of the globe moved."""

    def __init__(self, scene: Scene, window: Window, turn: int, groups: Indexes) -> None:
        geometry = scene.index.geometry
        self.window = window
        self.parts, of_group = gather(geometry.groups, groups)
        self.classes = scene.classes[geometry.features[groups]].repeat(np.diff(of_group))
        self.opens = np.zeros(len(self.parts), dtype=np.bool_)
        self.opens[of_group[:-1]] = True
        self.rings = geometry.rings[self.parts]
        thinned = scene.index.levels.take(window.level, self.parts)
        self.lines = Lines(window.on_canvas(thinned.coordinates, turn), thinned.offsets)
        self.style = scene.style

    def draw_lines(self, image: Image.Image, width: int) -> None:
        for colour in np.unique(self.classes).tolist():
            self._stroke(image, np.flatnonzero(self.classes == colour), colour, width)

    def draw_areas(self, image: Image.Image, width: int) -> None:
        fills.fill(image, self.window, self.lines, self.opens.tolist(), colours.FILL)
        if self.style.strokes_areas:
            self._stroke(image, np.arange(len(self.parts)), colours.OUTLINE, width)

    def _stroke(self, image: Image.Image, chosen: Indexes, colour: int, width: int) -> None:
        laid = strokes.lay(self.window, self.lines.take(chosen), width, self.rings[chosen])
        strokes.draw(ImageDraw.Draw(image), laid, colour, width)
