"""The tiles that strokes come upon. PURE.

A stroke is an edge and what is within half its width along either axis: at its ends and bends that
is a little more than what is drawn.
"""

import numpy as np

from .. import zorder
from ..arrays import Floats, Indexes
from ..zorder import Keys

MOST_MEETINGS = 2_000_000
"""Of edges with columns, and with tiles: bounds time and memory."""


def tiles_under(starts: Floats, ends: Floats, half_width: float, zoom: int) -> Keys | None:
    """The tiles of a zoom that strokes come upon. All in units of its tiles, x beyond the map is turned back into it.

    None when there are too many to tell.
    """
    turned = starts[:, :1] > ends[:, :1]
    west, east = np.where(turned, ends, starts), np.where(turned, starts, ends)
    edges, columns = _each(west[:, 0] - half_width, east[:, 0] + half_width)
    if edges is None or columns is None:
        return None
    north, south = _rows(west[edges], east[edges], columns, half_width)
    tiles = 1 << zoom
    met, rows = _each(np.maximum(north - half_width, 0), np.minimum(south + half_width, tiles - 0.5))
    if met is None or rows is None:
        return None
    return zorder.distinct(zorder.keys_of(columns[met] % tiles, rows))


def _each(firsts: Floats, lasts: Floats) -> tuple[Indexes, Indexes] | tuple[None, None]:
    """The whole numbers from each first to its last, and whose they are; None when there are too many."""
    low = np.floor(firsts).astype(np.int64)
    counts = np.maximum(np.floor(lasts).astype(np.int64) - low + 1, 0)
    total = int(counts.sum())
    if total > MOST_MEETINGS:
        return None, None
    owners = np.repeat(np.arange(len(counts)), counts)
    numbers = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts) + low[owners]
    return owners, numbers


def _rows(west: Floats, east: Floats, columns: Indexes, half_width: float) -> tuple[Floats, Floats]:
    """How far north and south edges reach within a column and half a width to both sides of it."""
    run = east[:, 0] - west[:, 0]
    slope = np.divide(east[:, 1] - west[:, 1], run, out=np.zeros(len(run)), where=run > 0)
    enters = np.clip(columns - half_width, west[:, 0], east[:, 0])
    leaves = np.clip(columns + 1 + half_width, west[:, 0], east[:, 0])
    first = west[:, 1] + slope * (enters - west[:, 0])
    last = np.where(run > 0, west[:, 1] + slope * (leaves - west[:, 0]), east[:, 1])
    return np.minimum(first, last), np.maximum(first, last)
