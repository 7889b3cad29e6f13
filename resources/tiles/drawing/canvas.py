"""The canvas of lines and areas: index colours of a window, at twice the size of its pixels. PURE.

The higher of two colours is on top, whichever was drawn first. What is drawn is rounded to whole
pixels in the same way wherever the window is, so that tiles are alike alone and in a block.
"""

from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from ..arrays import Places, Samples
from ..window import LEFT, MARGIN, Window

Vertices: TypeAlias = NDArray[np.float32]

PRESSED_AT_ONCE = 1 << 20
"""Pixels: bounds the memory that many large discs take."""


DENSE = 0.1
"""From so many pixels of discs, by pixels of the canvas and rows of a disc, all discs are pressed at once."""


class Canvas:
    """A window that is being painted, with strokes of one width. Places are those of Window.on_canvas."""

    def __init__(self, window: Window, width: int) -> None:
        self.window = window
        self.width = width
        self._border = width + 4
        self._sheet = np.zeros((window.height + 2 * self._border, window.width + 2 * self._border), np.uint8)
        self._image = Image.new("L", window.canvas_size)
        self._pencil = ImageDraw.Draw(self._image).draw  # the methods around it cost more than most lines

    def draw_line(self, points: Vertices, colour: int, width: int | None = None) -> None:
        """A polyline without joints. Edges are no longer than window.LONG_EDGE."""
        self._pencil.draw_lines(points, colour, width or self.width)

    def press_discs(self, centres: Places, colour: int, width: int | None = None) -> None:
        """Discs as wide as the strokes, round centres no farther from the window than half of that and 2."""
        rows, columns = _disc(width or self.width)
        stride = self._sheet.shape[1]
        pattern = rows * stride + columns
        places = (centres[:, 1] - MARGIN + self._border) * stride + centres[:, 0] - LEFT + self._border
        if len(places) * len(pattern) > DENSE * len(np.unique(rows)) * self._sheet.size:
            self._press_all(places, rows, columns, colour)
            return
        flat = self._sheet.reshape(-1)
        at_once = max(1, PRESSED_AT_ONCE // len(pattern))
        for first in range(0, len(places), at_once):
            pressed = (places[first : first + at_once, None] + pattern).reshape(-1)
            flat[pressed] = np.maximum(flat[pressed], np.uint8(colour))

    def _press_all(self, places: Places, rows: Places, columns: Places, colour: int) -> None:
        """The same discs by widening all centres at once, row by row of a disc: dearer for few, cheaper for many."""
        centres = np.zeros(self._sheet.size, np.bool_)
        centres[places] = True
        widened, pressed = centres.copy(), np.zeros_like(centres)
        by_half_width = sorted((int(columns[rows == row].max()), int(row)) for row in np.unique(rows))
        reached = 0
        for half_width, row in by_half_width:
            for step in range(reached + 1, half_width + 1):
                widened[step:] |= centres[:-step]
                widened[:-step] |= centres[step:]
            reached = half_width
            shift = row * self._sheet.shape[1]
            if row < 0:
                pressed[:shift] |= widened[-shift:]
            else:
                pressed[shift:] |= widened[: widened.size - shift]
        np.maximum(self._sheet, np.uint8(colour), out=self._sheet, where=pressed.reshape(self._sheet.shape))

    def cover(self, first_row: int, mask: NDArray[np.bool_], colour: int) -> None:
        """Colours what a mask shows: rows as wide as the window, the first of which is its row `first_row`."""
        rows = self._shown[first_row : first_row + len(mask)]
        np.maximum(rows, np.uint8(colour), out=rows, where=mask)

    def samples(self) -> Samples:
        """The index colours of the window."""
        drawn: Samples = np.asarray(self._image.crop(self.window.on_canvas_box))
        return np.asarray(np.maximum(self._shown, drawn))

    @property
    def _shown(self) -> Samples:
        border = self._border
        return self._sheet[border : border + self.window.height, border : border + self.window.width]


@lru_cache(maxsize=128)
def _disc(width: int) -> tuple[Places, Places]:
    """Rows and columns, from its centre, of a disc's pixels."""
    radius = width // 2
    if not radius:  # Pillow draws no ellipse of one pixel
        return np.zeros(1, np.int64), np.zeros(1, np.int64)
    image = Image.new("1", (2 * radius + 1, 2 * radius + 1))
    ImageDraw.Draw(image).ellipse((0, 0, 2 * radius, 2 * radius), fill=1)
    rows, columns = np.nonzero(np.asarray(image))
    return rows - radius, columns - radius
