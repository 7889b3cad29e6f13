"""Areas as filled polygons with holes on an index-colour canvas. PURE."""

from collections.abc import Iterator

import numpy as np
from PIL import Image, ImageDraw

from .simplifying import Lines
from .window import LONG_EDGE, REACH, Floats, Window


def fill(image: Image.Image, window: Window, rings: Lines, outer: list[bool], colour: int) -> None:
    """Fills polygons: each outer ring and the holes after it. Rings stand on the canvas already."""
    canvas = ImageDraw.Draw(image)
    mask = Image.new("1", image.size)
    for shell, *holes in _polygons(rings, outer):
        seen = _near_window(window, shell)
        if len(seen) < 3:
            continue
        gaps = [gap for gap in (_near_window(window, hole) for hole in holes) if len(gap) >= 3]
        if gaps:
            _fill_with_holes(image, mask, seen, gaps, colour)
        else:
            canvas.polygon(seen.astype(np.float32), fill=colour)  # type: ignore[arg-type]  # reads float32 buffers


def _polygons(rings: Lines, outer: list[bool]) -> Iterator[list[Floats]]:
    polygon: list[Floats] = []
    for opens, first, last in zip(outer, rings.offsets[:-1].tolist(), rings.offsets[1:].tolist(), strict=True):
        if opens and polygon:
            yield polygon
            polygon = []
        polygon.append(rings.coordinates[first:last])
    if polygon:
        yield polygon


def _fill_with_holes(image: Image.Image, mask: Image.Image, shell: Floats, holes: list[Floats], colour: int) -> None:
    """Fills by a mask, which is empty before and after: a hole must not erase what lies under it.

    Copies and clears no more than the shell's box, for a tile may hold thousands of small ones.
    """
    left, top = (int(least) for least in np.maximum(shell.min(axis=0), 0))
    right, bottom = (int(most) + 1 for most in np.minimum(shell.max(axis=0), np.array(image.size) - 1))
    if right <= left or bottom <= top:
        return
    box = (left, top, right, bottom)
    canvas = ImageDraw.Draw(mask)
    for ring, shown in ((shell, 1), *((hole, 0) for hole in holes)):
        canvas.polygon(ring.astype(np.float32), fill=shown)  # type: ignore[arg-type]  # reads float32 buffers
    image.paste(colour, box, mask.crop(box))
    mask.paste(0, box)


def _near_window(window: Window, ring: Floats) -> Floats:
    """What of a ring is needed to fill the window; empty when it lies to one side of it."""
    low, high = window.canvas_reach(0)
    least, most = ring.min(axis=0), ring.max(axis=0)
    if (most < low).any() or (least > high).any():
        return np.empty((0, 2))
    if (least >= low - REACH).all() and (most <= high + REACH).all():
        return ring
    return np.floor(clip_ring(_with_long_edges_cut(window, ring), low - REACH, high + REACH) + 0.5)


def _with_long_edges_cut(window: Window, ring: Floats) -> Floats:
    ends = np.roll(ring, -1, axis=0)
    long = (np.abs(ends - ring).max(axis=1) > LONG_EDGE) & window.near(ring, ends, REACH)
    if not long.any():
        return ring
    stretches: list[Floats] = []
    done = 0
    for edge in np.flatnonzero(long).tolist():
        stretches += [ring[done : edge + 1], window.cut(ring[edge], ends[edge], REACH)]
        done = edge + 1
    return np.concatenate([*stretches, ring[done:]])


def clip_ring(ring: Floats, low: Floats, high: Floats) -> Floats:
    """A ring cut to the rectangle between two corners (Sutherland and Hodgman, 1974).

    May leave edges of no area along the rectangle's border, which is far outside of the window.
    """
    for axis, limit, sign in ((0, low[0], 1.0), (0, high[0], -1.0), (1, low[1], 1.0), (1, high[1], -1.0)):
        depth = (ring[:, axis] - limit) * sign
        if not len(ring) or (depth >= 0).all():
            continue
        following, following_depth = np.roll(ring, -1, axis=0), np.roll(depth, -1)
        crosses = (depth >= 0) != (following_depth >= 0)
        share = np.where(crosses, depth / np.where(crosses, depth - following_depth, 1.0), 0.0)[:, None]
        met = ring + (following - ring) * share
        rows = np.stack((ring, met), axis=1).reshape(-1, 2)
        ring = rows[np.stack((depth >= 0, crosses), axis=1).reshape(-1)]
    return ring
