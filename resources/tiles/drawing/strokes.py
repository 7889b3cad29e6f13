"""Lines as strokes on a canvas, in short calls. PURE.

Each call draws at most a few hundred edges, so that the thread that renews the claim's lease gets
its turn in between.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats, Indexes, Places
from ..window import LONG_EDGE, Window
from .canvas import Canvas, Vertices
from .simplifying import Lines

EDGES_PER_CALL = 256
JOINED_WIDTH = 4
"""From this width on gaps show between the edges of a bend: discs close them."""

WIDE = 12
"""From this width on even the rounding of corners shows."""

JOINS_BY_DISCS = 2
"""Pixels: edges up to this length (of the narrowest strokes, 1) are covered by the discs at their ends.

At low zooms nearly all edges are, and many discs cost less than one line.
"""

POLE = 1.5
"""How far from the equator, in turns of the globe, rings round a pole are closed."""


@dataclass(frozen=True, slots=True, eq=False)
class Strokes:
    """What one class of lines draws: polylines, discs at their bends and ends, dots."""

    polylines: list[Vertices]
    discs: Places


def odd_width(pixels: float) -> int:
    """A stroke's width on the supersampled canvas: odd, so that it lies evenly about its line."""
    return int(pixels) // 2 * 2 + 1


def draw(canvas: Canvas, strokes: Strokes, colour: int, width: int) -> None:
    for points in strokes.polylines:
        canvas.draw_line(points, colour, width)
    canvas.press_discs(strokes.discs, colour, width)


def lay(window: Window, lines: Lines, width: int, rings: NDArray[np.bool_]) -> Strokes:
    """The strokes of lines that stand on the canvas already; what cannot be seen is left out.

    `rings` marks the parts whose edges along ±180° are cuts, not shores: they are left out too.
    """
    if not len(lines.coordinates):
        return Strokes([], np.empty((0, 2), np.int64))
    reach = width / 2 + 2
    starts, ends, inner = _edges(lines)
    cuts = _cuts(window, starts, ends) & np.repeat(rings, np.diff(lines.offsets))
    near = window.near(starts, ends, reach) & inner & ~cuts
    lengths = np.abs(ends - starts).max(axis=1)
    long, short = near & (lengths > LONG_EDGE), near & (lengths <= (JOINS_BY_DISCS if width > 1 else 1))
    polylines = list(_runs(lines.coordinates, near & ~long & ~short))
    for edge in np.flatnonzero(long):
        points = window.cut(starts[edge], ends[edge], reach)
        if len(points):
            polylines.append(points.astype(np.float32))
    return Strokes(polylines, _discs(window, lines, near, short, width))


def _edges(lines: Lines) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Start and end of the edge that begins at each row, and whether it lies within one part."""
    ends = np.roll(lines.coordinates, -1, axis=0)
    inner = np.ones(len(ends), dtype=np.bool_)
    inner[lines.offsets[1:] - 1] = False
    return lines.coordinates, ends, inner


def _cuts(window: Window, starts: Floats, ends: Floats) -> NDArray[np.bool_]:
    """Edges that rings have only because the map is flat: along ±180°, and to beyond the poles."""
    west, north = window.on_canvas(np.zeros((1, 2)), 0)[0].tolist()
    along_edge = (starts[:, 0] == ends[:, 0]) & (np.mod(starts[:, 0] - west, window.globe) == 0)
    middle = north + window.globe / 2
    farthest = np.maximum(np.abs(starts[:, 1] - middle), np.abs(ends[:, 1] - middle))
    return np.asarray(along_edge | (farthest >= POLE * window.globe))


def _runs(coordinates: Floats, drawn: NDArray[np.bool_]) -> Iterator[Vertices]:
    """Polylines of consecutive drawn edges, a few hundred at most in each."""
    places = np.flatnonzero(drawn)
    if not len(places):
        return
    breaks = np.flatnonzero((np.diff(places) > 1) | (places[1:] % EDGES_PER_CALL == 0)) + 1
    points = np.clip(coordinates, -1e6, 1e6).astype(np.float32)
    firsts = places[np.concatenate(([0], breaks))].tolist()
    lasts = places[np.concatenate((breaks - 1, [len(places) - 1]))].tolist()
    for first, last in zip(firsts, lasts, strict=True):
        yield points[first : last + 2]


def _discs(window: Window, lines: Lines, near: NDArray[np.bool_], short: NDArray[np.bool_], width: int) -> Places:
    """Centres of the discs: lines that have shrunk to a point, short edges, bends and ends of wide lines."""
    marked = short | np.roll(short, 1)
    marked[lines.offsets[:-1][np.diff(lines.offsets) == 1]] = True
    if width >= JOINED_WIDTH:
        marked[_bends_and_ends(lines, near, width)] = True
    centres = lines.coordinates[marked]
    return centres[window.near(centres, centres, width / 2 + 2)].astype(np.int64)


def _bends_and_ends(lines: Lines, near: NDArray[np.bool_], width: int) -> Indexes:
    """Rows where a drawn line ends, or bends so much that its edges gape."""
    coordinates = lines.coordinates
    before, after = np.roll(near, 1), near
    step_after = np.roll(coordinates, -1, axis=0) - coordinates
    step_before = np.roll(step_after, 1, axis=0)
    along = (step_before * step_after).sum(axis=1)
    lengths = np.hypot(*step_before.T) * np.hypot(*step_after.T)
    bends = before & after & (along < _straight_cosine(width) * lengths)
    return np.flatnonzero(bends | (before != after))


def _straight_cosine(width: int) -> float:
    """From this cosine on a bend does not gape: narrow lines by the angle 2 / width, wide ones only straight on."""
    return 1 - 2 / width**2 if width < WIDE else 1 - 1e-9
