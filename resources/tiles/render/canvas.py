"""The canvas of lines and areas: strokes and fills in index colours, at twice the size of its pixels.

The higher of two colours is on top in any order of drawing. Shapes are rounded to whole pixels in the same way
wherever the window is, so that tiles are alike alone and in a metatile.

Strokes are drawn in calls of at most a few hundred edges, so that the thread that renews the claim's lease gets
its turn in between. The meeting of an edge of an area and a row is computed from these two alone and rounded to
a pixel first: all windows fill alike, and edges far from a window need no clipping.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from ..grid_arrays import ColourSamples, Floats, Indexes, PixelPlaces
from ..window import CANVAS_LEFT, CANVAS_MARGIN, LONG_EDGE_PIXELS, Window
from .scene import LatticeLines

Vertices: TypeAlias = NDArray[np.float32]

MAX_PRESSED_PIXELS = 1 << 20
"""Pixels: bounds the memory that many large discs take."""


DENSE_DISC_SHARE = 0.1
"""From this share on, all discs are pressed at once: pixels of discs, per pixel of the canvas and row of a disc."""


class Canvas:
    """The canvas of a window, with strokes of one width. Places are those of Window.on_canvas."""

    def __init__(self, window: Window, width: int) -> None:
        self.window = window
        self.width = width
        self._border = width + 4
        self._sheet = np.zeros((window.height + 2 * self._border, window.width + 2 * self._border), np.uint8)
        self._image = Image.new("L", window.canvas_size)
        self._pencil = ImageDraw.Draw(self._image).draw  # the methods around it cost more than most lines

    def draw_line(self, points: Vertices, colour: int, width: int | None = None) -> None:
        """Draws a polyline without joints. Edges are no longer than LONG_EDGE_PIXELS."""
        self._pencil.draw_lines(points, colour, width or self.width)

    def press_discs(self, centres: PixelPlaces, colour: int, width: int | None = None) -> None:
        """Presses discs as wide as the strokes; centres are at most half a width and 2 pixels from the window."""
        rows, columns = _disc_pixels(width or self.width)
        stride = self._sheet.shape[1]
        pattern = rows * stride + columns
        places = (centres[:, 1] - CANVAS_MARGIN + self._border) * stride + centres[:, 0] - CANVAS_LEFT + self._border
        if len(places) * len(pattern) > DENSE_DISC_SHARE * len(np.unique(rows)) * self._sheet.size:
            self._press_all(places, rows, columns, colour)
            return
        flat = self._sheet.reshape(-1)
        at_once = max(1, MAX_PRESSED_PIXELS // len(pattern))
        for first in range(0, len(places), at_once):
            pressed = (places[first : first + at_once, None] + pattern).reshape(-1)
            flat[pressed] = np.maximum(flat[pressed], np.uint8(colour))

    def _press_all(self, places: PixelPlaces, rows: PixelPlaces, columns: PixelPlaces, colour: int) -> None:
        """Widens all centres at once, row by row of a disc: the same discs, dearer for few, cheaper for many."""
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
        """Colours the pixels of a mask: rows as wide as the window, from its row `first_row` on."""
        rows = self._shown[first_row : first_row + len(mask)]
        np.maximum(rows, np.uint8(colour), out=rows, where=mask)

    def samples(self) -> ColourSamples:
        drawn: ColourSamples = np.asarray(self._image.crop(self.window.on_canvas_box))
        return np.asarray(np.maximum(self._shown, drawn))

    @property
    def _shown(self) -> ColourSamples:
        border = self._border
        return self._sheet[border : border + self.window.height, border : border + self.window.width]


@lru_cache(maxsize=128)
def _disc_pixels(width: int) -> tuple[PixelPlaces, PixelPlaces]:
    """Returns rows and columns, from its centre, of a disc's pixels."""
    radius = width // 2
    if not radius:  # Pillow draws no ellipse of one pixel
        return np.zeros(1, np.int64), np.zeros(1, np.int64)
    image = Image.new("1", (2 * radius + 1, 2 * radius + 1))
    ImageDraw.Draw(image).ellipse((0, 0, 2 * radius, 2 * radius), fill=1)
    rows, columns = np.nonzero(np.asarray(image))
    return rows - radius, columns - radius


MAX_EDGES_PER_CALL = 256
JOINED_WIDTH = 4
"""From this width on, gaps show between the edges of a bend: discs close them."""

WIDE_WIDTH = 12
"""From this width on, even the rounding of corners shows."""

DISC_JOINED_PIXELS = 2
"""Pixels: edges up to this length (of the narrowest strokes, 1) are covered by the discs at their ends.

At low zooms nearly all edges are, and many discs cost less than one line.
"""

POLE_TURNS = 1.5
"""Distance from the equator, in turns of the globe, at which rings round a pole are closed."""


@dataclass(frozen=True, slots=True, eq=False)
class Strokes:
    """The strokes of one class of lines: polylines, discs at their bends and ends, dots."""

    polylines: list[Vertices]
    discs: PixelPlaces


def odd_stroke_width(pixels: float) -> int:
    """Returns a stroke's width on the supersampled canvas: odd, so that it lies evenly about its line."""
    return int(pixels) // 2 * 2 + 1


def lay_strokes(window: Window, lines: LatticeLines, width: int, rings: NDArray[np.bool_]) -> Strokes:
    """Lays the strokes of lines in canvas pixels; leaves out those that cannot be seen.

    `rings` marks the parts whose edges along ±180° are cuts, not shores: they are left out too.
    """
    if not len(lines.coordinates):
        return Strokes([], np.empty((0, 2), np.int64))
    reach = width / 2 + 2
    starts, ends, inner = _line_edges(lines)
    cuts = _cut_edges(window, starts, ends) & np.repeat(rings, np.diff(lines.offsets))
    near = window.near(starts, ends, reach) & inner & ~cuts
    lengths = np.abs(ends - starts).max(axis=1)
    long, short = near & (lengths > LONG_EDGE_PIXELS), near & (lengths <= (DISC_JOINED_PIXELS if width > 1 else 1))
    polylines = list(_polylines(lines.coordinates, near & ~long & ~short))
    for edge in np.flatnonzero(long):
        points = window.cut(starts[edge], ends[edge], reach)
        if len(points):
            polylines.append(points.astype(np.float32))
    return Strokes(polylines, _disc_centres(window, lines, near, short, width))


def _line_edges(lines: LatticeLines) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Returns start and end of the edge that begins at each row, and True if it lies within one part."""
    ends = np.roll(lines.coordinates, -1, axis=0)
    inner = np.ones(len(ends), dtype=np.bool_)
    inner[lines.offsets[1:] - 1] = False
    return lines.coordinates, ends, inner


def _cut_edges(window: Window, starts: Floats, ends: Floats) -> NDArray[np.bool_]:
    """Tells for each edge whether it exists only because the map is flat: along ±180°, or to beyond the poles."""
    west, north = window.on_canvas(np.zeros((1, 2)), 0)[0].tolist()
    along_edge = (starts[:, 0] == ends[:, 0]) & (np.mod(starts[:, 0] - west, window.globe) == 0)
    middle = north + window.globe / 2
    farthest = np.maximum(np.abs(starts[:, 1] - middle), np.abs(ends[:, 1] - middle))
    return np.asarray(along_edge | (farthest >= POLE_TURNS * window.globe))


def _polylines(coordinates: Floats, drawn: NDArray[np.bool_]) -> Iterator[Vertices]:
    """Yields polylines of consecutive drawn edges, a few hundred at most in each."""
    places = np.flatnonzero(drawn)
    if not len(places):
        return
    breaks = np.flatnonzero((np.diff(places) > 1) | (places[1:] % MAX_EDGES_PER_CALL == 0)) + 1
    points = np.clip(coordinates, -1e6, 1e6).astype(np.float32)
    firsts = places[np.concatenate(([0], breaks))].tolist()
    lasts = places[np.concatenate((breaks - 1, [len(places) - 1]))].tolist()
    for first, last in zip(firsts, lasts, strict=True):
        yield points[first : last + 2]


def _disc_centres(
    window: Window, lines: LatticeLines, near: NDArray[np.bool_], short: NDArray[np.bool_], width: int
) -> PixelPlaces:
    """Returns the centres of the discs: lines shrunk to a point, short edges, bends and ends of wide lines."""
    marked = short | np.roll(short, 1)
    marked[lines.offsets[:-1][np.diff(lines.offsets) == 1]] = True
    if width >= JOINED_WIDTH:
        marked[_bends_and_ends(lines, near, width)] = True
    centres = lines.coordinates[marked]
    return centres[window.near(centres, centres, width / 2 + 2)].astype(np.int64)


def _bends_and_ends(lines: LatticeLines, near: NDArray[np.bool_], width: int) -> Indexes:
    """Returns the rows at which a drawn line ends, or bends so much that its edges gape."""
    coordinates = lines.coordinates
    before, after = np.roll(near, 1), near
    step_after = np.roll(coordinates, -1, axis=0) - coordinates
    step_before = np.roll(step_after, 1, axis=0)
    along = (step_before * step_after).sum(axis=1)
    lengths = np.hypot(*step_before.T) * np.hypot(*step_after.T)
    bends = before & after & (along < _straight_cosine(width) * lengths)
    return np.flatnonzero(bends | (before != after))


def _straight_cosine(width: int) -> float:
    """Returns the cosine from which a bend does not gape: angle 2 / width for narrow lines, straight on for wide."""
    return 1 - 2 / width**2 if width < WIDE_WIDTH else 1 - 1e-9


MAX_FILL_MEETINGS = 1_000_000
MAX_FILL_ROWS = 256


@dataclass(frozen=True, slots=True, eq=False)
class _PolygonEdges:
    """Edges that meet rows of a window: their starts, slopes, first rows and the rows after the last."""

    x: Floats
    y: Floats
    slopes: Floats
    first: PixelPlaces
    last: PixelPlaces
    polygons: Indexes

    def meeting(self, first_row: int, last_row: int) -> "_PolygonEdges":
        met = (self.first < last_row) & (self.last > first_row)
        first, last = np.maximum(self.first[met], first_row), np.minimum(self.last[met], last_row)
        return _PolygonEdges(self.x[met], self.y[met], self.slopes[met], first, last, self.polygons[met])


def fill_polygons(
    window: Window, rings: LatticeLines, outer: NDArray[np.bool_]
) -> Iterator[tuple[int, NDArray[np.bool_]]]:
    """Yields masks of the polygons, stretch by stretch: the first row, and True for each pixel inside.

    A polygon is an outer ring and the holes after it (even-odd); it shows through the holes of
    others. Rings are in canvas pixels. Leaves out the bottom row of each polygon: its outline has it.
    """
    edges = _polygon_edges(window, rings, outer)
    meetings = int((edges.last - edges.first).sum())
    if not meetings:
        return
    stretches = max(meetings / MAX_FILL_MEETINGS, window.height / MAX_FILL_ROWS)
    rows = max(1, int(window.height / stretches))
    for first in range(0, window.height, rows):
        last = min(first + rows, window.height)
        found = edges.meeting(first, last)
        if len(found.x):
            yield first, _inside_mask(found, first, last, window.width)


def _polygon_edges(window: Window, rings: LatticeLines, outer: NDArray[np.bool_]) -> _PolygonEdges:
    starts = rings.coordinates - np.array([CANVAS_LEFT, CANVAS_MARGIN], np.float64)
    ends = np.roll(starts, -1, axis=0)
    ends[rings.offsets[1:] - 1] = starts[rings.offsets[:-1]]
    polygons = np.repeat(np.cumsum(outer, dtype=np.int64), np.diff(rings.offsets))
    first = np.clip(np.minimum(starts[:, 1], ends[:, 1]), 0, window.height).astype(np.int64)
    last = np.clip(np.maximum(starts[:, 1], ends[:, 1]), 0, window.height).astype(np.int64)
    met = last > first
    starts, steps = starts[met], (ends - starts)[met]
    return _PolygonEdges(starts[:, 0], starts[:, 1], steps[:, 0] / steps[:, 1], first[met], last[met], polygons[met])


def _inside_mask(edges: _PolygonEdges, first_row: int, last_row: int, width: int) -> NDArray[np.bool_]:
    counts = edges.last - edges.first
    begins = np.cumsum(counts) - counts
    rows = np.arange(int(counts.sum())) + np.repeat(edges.first - begins, counts)
    along = (rows - np.repeat(edges.y, counts)) * np.repeat(edges.slopes, counts)
    # Twice the column where the edge is met, rounded to a pixel or to between two.
    twice = np.floor(along + 0.5) + np.ceil(along - 0.5) + 2 * np.repeat(edges.x, counts)
    rows -= first_row
    height, most = last_row - first_row, 2 * width + 4
    keys = np.repeat(edges.polygons, counts) * height + rows
    keys = keys * most + np.clip(twice + 2, 0, most - 2).astype(np.int64)
    keys.sort()
    return _mask_between(keys[0::2], keys[1::2], most, height, width)


def _mask_between(enters: PixelPlaces, leaves: PixelPlaces, most: int, height: int, width: int) -> NDArray[np.bool_]:
    """Returns the mask of the pixels between the places where rows enter and leave polygons."""
    rows = enters // most % height
    west = np.clip((enters % most - 1) // 2, 0, width)
    east = np.clip((leaves % most - 2) // 2 + 1, west, width)
    changes = np.zeros((height, width + 1), np.int32)
    np.add.at(changes, (rows, west), 1)
    np.add.at(changes, (rows, east), -1)
    return np.asarray(np.cumsum(changes[:, :width], axis=1) > 0)
