"""Paints windows of a scene, and tiles, one or many from one canvas. PURE; does not load layers or store tiles.

Each class of lines is drawn in one colour over the better ones, so that within a class the order
does not matter and neighbours agree.
"""

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
from PIL import Image

from ..arrays import Indexes, Samples
from ..styling import colours
from ..tile import Tile
from ..window import SUPERSAMPLING, Window
from . import encoding, fills, strokes
from .building import AnyScene
from .canvas import Canvas
from .points.scene import PointScene
from .scene import Scene
from .simplifying import Lines, gather


@cache
def empty_tile(scale: int, image_format: str) -> bytes:
    """The file of a tile that shows nothing: one for all layers and places."""
    side = 256 * SUPERSAMPLING * scale
    return encoding.encode(np.zeros((side, side), np.uint8), ((0, 0, 0, 0),), image_format)


def paint(scene: AnyScene, tile: Tile) -> bytes:
    """The tile's image file; the shared empty one when nothing of the scene is on it."""
    return paint_all(scene, [tile])[tile]


def paint_all(scene: AnyScene, tiles: Sequence[Tile]) -> Mapping[Tile, bytes]:
    """The image files of tiles of one zoom, scale and format, cut from one canvas around them all.

    Each is to the byte what the tile alone would be.
    """
    if not tiles:
        return {}
    window = Window.around(tiles)
    image = draw(scene, window, tiles[0].z, tiles[0].scale)
    if image is None:
        return {tile: empty_tile(tile.scale, tile.format) for tile in tiles}
    samples = np.asarray(image)
    painted = {}
    for tile in tiles:
        left, top, right, bottom = Window.of(tile).within(window)
        painted[tile] = _encode(scene, tile, samples[top:bottom, left:right])
    return painted


def _encode(scene: AnyScene, tile: Tile, samples: Samples) -> bytes:
    if not samples.any():
        return empty_tile(tile.scale, tile.format)
    return encoding.encode(samples, scene.style.palette, tile.format)


def draw(scene: AnyScene, window: Window, zoom: int, scale: int) -> Image.Image | None:
    """The index colours of a window, as large as it is; None when no geometry is near. The style is that of `zoom`."""
    if isinstance(scene, PointScene):
        return scene.draw(window, zoom, scale)
    width = strokes.odd_width(scene.style.width_at(zoom) * SUPERSAMPLING * scale)
    reach = width / 2 + 4
    canvas: Canvas | None = None
    for turn in window.turns(scene.index.west, scene.index.east, reach):
        groups = scene.index.groups_within(*window.unit_box(reach, turn))
        if len(groups):
            canvas = canvas or Canvas(window, width)
            seen = _Seen(scene, canvas, turn, groups)
            seen.draw_areas() if scene.kind == "areas" else seen.draw_lines()
    return Image.fromarray(canvas.samples()) if canvas else None


class _Seen:
    """The groups of a scene that a canvas may show, `turn` turns of the globe moved."""

    def __init__(self, scene: Scene, canvas: Canvas, turn: int, groups: Indexes) -> None:
        geometry = scene.index.geometry
        self.canvas = canvas
        self.parts, of_group = gather(geometry.groups, groups)
        self.classes = scene.classes[geometry.features[groups]].repeat(np.diff(of_group))
        self.opens = np.zeros(len(self.parts), dtype=np.bool_)
        self.opens[of_group[:-1]] = True
        self.rings = geometry.rings[self.parts]
        thinned = scene.index.levels.take(canvas.window.level, self.parts)
        self.lines = Lines(canvas.window.on_canvas(thinned.coordinates, turn), thinned.offsets)
        self.style = scene.style

    def draw_lines(self) -> None:
        for colour in np.unique(self.classes).tolist():
            self._stroke(np.flatnonzero(self.classes == colour), colour, self.canvas.width)

    def draw_areas(self) -> None:
        for first_row, mask in fills.fill(self.canvas.window, self.lines, self.opens):
            self.canvas.cover(first_row, mask, colours.FILL)
        everything = np.arange(len(self.parts))
        self._stroke(everything, colours.FILL, 1)
        if self.style.strokes_areas:
            self._stroke(everything, colours.OUTLINE, self.canvas.width)

    def _stroke(self, chosen: Indexes, colour: int, width: int) -> None:
        laid = strokes.lay(self.canvas.window, self.lines.take(chosen), width, self.rings[chosen])
        strokes.draw(self.canvas, laid, colour, width)
