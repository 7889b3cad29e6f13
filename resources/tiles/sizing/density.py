"""Where the most of a layer is on one tile. PURE."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .. import grid
from ..arrays import Floats

SAMPLES = 100_000
"""So many positions are looked at, taken at even distances."""


@dataclass(frozen=True, slots=True)
class Densest:
    """The tile of a zoom that has the most positions, and its share of them."""

    zoom: int
    x: int
    y: int
    share: float


def densest_tiles(positions: Floats, zooms: Sequence[int]) -> Iterator[Densest]:
    """The tile of each zoom that has the most of some positions in unit mercator.

    Positions count, not lengths: a long straight line has few.
    """
    sampled = positions[:: max(1, -(-len(positions) // SAMPLES))]
    cells = np.clip(np.mod(sampled, [1.0, np.inf]), 0.0, np.nextafter(1.0, 0.0)) * float(1 << grid.MAX_ZOOM)
    columns, rows = _spread(cells[:, 0].astype(np.uint64)), _spread(cells[:, 1].astype(np.uint64))
    codes = np.sort(columns | (rows << np.uint64(1)))  # interleaved: those of one tile of any zoom are neighbours
    for zoom in zooms:
        tiles = codes >> np.uint64(2 * (grid.MAX_ZOOM - zoom))
        starts = np.flatnonzero(np.diff(tiles, prepend=tiles[:1] + np.uint64(1)))
        numbers = np.diff(starts, append=len(tiles))
        densest = int(tiles[starts[numbers.argmax()]])
        yield Densest(zoom, _gather(densest), _gather(densest >> 1), float(numbers.max() / len(tiles)))


def _spread(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Numbers of up to 32 bits with a free bit before each of theirs (Morton, 1966)."""
    for shift, mask in (
        (16, 0x0000FFFF0000FFFF),
        (8, 0x00FF00FF00FF00FF),
        (4, 0x0F0F0F0F0F0F0F0F),
        (2, 0x3333333333333333),
        (1, 0x5555555555555555),
    ):
        numbers = (numbers | (numbers << np.uint64(shift))) & np.uint64(mask)
    return numbers


def _gather(code: int) -> int:
    """Every second bit of a code, from the first."""
    return sum((code >> 2 * place & 1) << place for place in range(grid.MAX_ZOOM))
