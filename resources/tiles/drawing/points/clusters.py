"""Points of one zoom joined into clusters, the same for every tile of that zoom. PURE.

Points are gathered into cells of half the radius. The cell with the most points takes in the cells
within the radius, then the largest of those that are left does, and so on; what has moved close
together by that is joined again. All cells that are the largest around are dealt with at once, which
comes to the same as one after the other. After supercluster, https://github.com/mapbox/supercluster,
which takes points in the order of the data instead.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...arrays import Places
from ...reading import points
from ...reading.points import Points
from . import cells
from .cells import Cells, Pairs

ROUNDS = 4
"""Clusters move when they are joined, and may come near others again: so often at most."""

_MIXER = 0x9E3779B97F4A7C15 - (1 << 64)
"""2⁶⁴ ÷ the golden ratio: Knuth, The Art of Computer Programming 3, 6.4. Scatters the keys of equal cells."""


@dataclass(frozen=True, slots=True, eq=False)
class Clusters:
    """All clusters of a zoom in the order of drawing: the largest last. One of count 1 is a point."""

    x: Places
    y: Places
    counts: NDArray[np.int64]


def cluster(of: Points, zoom: int, radius_pixels: float) -> Clusters:
    """The clusters of a whole zoom: every point is in one of them."""
    per_tile = max(1, int(2 * cells.TILE_PIXELS / radius_pixels))
    reach = radius_pixels * (1 << (points.BITS - 8 - zoom))
    found = cells.gather(of.x, of.y, np.ones(len(of.x), np.int64), zoom, per_tile)
    for _ in range(ROUNDS):
        pairs = _within(found, cells.neighbours(found, 2), reach)
        if not len(pairs[0]):
            break
        x, y, counts = _join(found, _owners(found, pairs))
        found = cells.gather(x, y, counts, zoom, per_tile)
    order = np.lexsort((found.keys, found.amounts))
    return Clusters(found.x[order], found.y[order], found.amounts[order])


def _within(found: Cells, pairs: Pairs, reach: float) -> Pairs:
    along, down = cells.steps(found, pairs)
    close = along.astype(np.float64) ** 2 + down.astype(np.float64) ** 2 < reach**2
    return pairs[0][close], pairs[1][close]


def _owners(found: Cells, pairs: Pairs) -> NDArray[np.int64]:
    """For each cell the cell that takes it in, or itself.

    Equal cells take turns by scattered keys: by their places, a long row of them would take as many
    rounds as it has cells.
    """
    ranked = np.lexsort((found.keys, found.keys * _MIXER, -found.amounts))
    ranks = np.empty(len(ranked), np.int64)
    ranks[ranked] = np.arange(len(ranks))
    owners = np.full(len(ranks), -1, np.int64)
    first, second = np.concatenate((pairs[0], pairs[1])), np.concatenate((pairs[1], pairs[0]))
    while len(first):
        best = ranks.copy()
        np.minimum.at(best, first, ranks[second])
        leads = (best == ranks) & (owners < 0)
        taking = leads[first]
        taken_by = np.full(len(ranks), len(ranks), np.int64)
        np.minimum.at(taken_by, second[taking], ranks[first[taking]])
        taken = taken_by < len(ranks)
        owners[leads] = np.flatnonzero(leads)
        owners[taken] = ranked[taken_by[taken]]
        left = (owners[first] < 0) & (owners[second] < 0)
        first, second = first[left], second[left]
    alone = owners < 0
    owners[alone] = np.flatnonzero(alone)
    return owners


def _join(found: Cells, owners: NDArray[np.int64]) -> tuple[Places, Places, NDArray[np.int64]]:
    """The middles and counts of the cells that were taken in, as seen from their owner, and so across ±180°."""
    order = np.argsort(owners, kind="stable")
    starts = np.flatnonzero(np.diff(owners[order], prepend=-1))
    leaders = owners[order][starts]
    counts = np.add.reduceat(found.amounts[order], starts)
    along = points.wrapped(found.x - found.x[owners]) * found.amounts
    down = (found.y - found.y[owners]) * found.amounts
    x = (found.x[leaders] + np.add.reduceat(along[order], starts) // counts) % points.GLOBE
    y = found.y[leaders] + np.add.reduceat(down[order], starts) // counts
    return x, y, counts
