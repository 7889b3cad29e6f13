"""Points of one zoom gathered into the cells of a lattice round the whole globe. PURE.

A cell knows how many points it has and their middle, in whole numbers: the order in which points
came makes no difference.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...arrays import Places
from ...reading import points

TILE_PIXELS = 256
Pairs: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64]]


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """The cells that hold something, in the order of their keys: row × columns + column."""

    columns: int
    keys: NDArray[np.int64]
    amounts: NDArray[np.int64]
    x: Places
    y: Places


def gather(x: Places, y: Places, amounts: NDArray[np.int64], zoom: int, per_tile: int) -> Cells:
    """The cells of a zoom, `per_tile` of them along a tile's side. Cells do not cross ±180°.

    The middle of a cell is that of its points, each as heavy as its amount, which is above 0.
    """
    columns = per_tile << zoom
    keys = (y * columns >> points.BITS) * columns + (x * columns >> points.BITS)
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    totals = np.add.reduceat(amounts[order], starts)
    middles = [np.add.reduceat((places * amounts)[order], starts) // totals for places in (x, y)]
    return Cells(columns, keys[starts], totals, middles[0], middles[1])


def neighbours(cells: Cells, reach: int) -> Pairs:
    """Pairs of cells at most `reach` cells apart in either direction, across ±180° too.

    On a globe of few columns a pair may come twice.
    """
    rows, columns = np.divmod(cells.keys, cells.columns)
    firsts, seconds = [], []
    for down in range(reach + 1):
        for along in range(-reach if down else 1, reach + 1):
            wanted = (rows + down) * cells.columns + (columns + along) % cells.columns
            places = np.minimum(np.searchsorted(cells.keys, wanted), len(cells.keys) - 1)
            found = np.flatnonzero((cells.keys[places] == wanted) & (places != np.arange(len(places))))
            firsts.append(found)
            seconds.append(places[found])
    return np.concatenate(firsts), np.concatenate(seconds)


def steps(cells: Cells, pairs: Pairs) -> tuple[Places, Places]:
    """How far, along and down, the second cell's middle of each pair is from the first's."""
    first, second = pairs
    return points.wrapped(cells.x[second] - cells.x[first]), cells.y[second] - cells.y[first]
