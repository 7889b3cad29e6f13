"""Numbers of tiles in z-order: those of a block, or of all that a tile covers deeper down, follow each other. PURE.

A tile's number is that of its column and row with their bits interleaved (Morton). The tile that
covers it one zoom before has a quarter of it, rounded down.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Keys: TypeAlias = NDArray[np.int64]
"""Numbers of tiles of one zoom: sorted, each once."""

_SPREADS = (
    (16, 0x0000FFFF0000FFFF),
    (8, 0x00FF00FF00FF00FF),
    (4, 0x0F0F0F0F0F0F0F0F),
    (2, 0x3333333333333333),
    (1, 0x5555555555555555),
)
_EVEN_BITS = 0x5555555555555555
_GATHERS = (
    (1, 0x3333333333333333),
    (2, 0x0F0F0F0F0F0F0F0F),
    (4, 0x00FF00FF00FF00FF),
    (8, 0x0000FFFF0000FFFF),
    (16, 0x00000000FFFFFFFF),
)


def none() -> Keys:
    return np.empty(0, np.int64)


def keys_of(x: Keys, y: Keys) -> Keys:
    """The numbers of tiles, in the order in which they are given."""
    keys: Keys = _spread(x) | (_spread(y) << 1)
    return keys


def key_of(x: int, y: int) -> int:
    """The number of one tile: plain integers are quicker than an array of one."""
    key = 0
    for bit in range(max(x, y).bit_length()):
        key |= (x >> bit & 1) << 2 * bit | (y >> bit & 1) << 2 * bit + 1
    return key


def places_of(keys: Keys) -> tuple[Keys, Keys]:
    """Columns and rows."""
    return _gather(keys), _gather(keys >> 1)


def parents(keys: Keys) -> Keys:
    """The tiles of the zoom before that cover these."""
    return distinct(keys >> 2)


def distinct(keys: Keys) -> Keys:
    """The same numbers, sorted, each once."""
    found: Keys = np.unique(keys)
    return found


def _spread(values: Keys) -> Keys:
    spread: Keys = values.astype(np.int64)
    for shift, mask in _SPREADS:
        spread = (spread | (spread << shift)) & mask
    return spread


def _gather(keys: Keys) -> Keys:
    gathered: Keys = keys & _EVEN_BITS
    for shift, mask in _GATHERS:
        gathered = (gathered | (gathered >> shift)) & mask
    return gathered
