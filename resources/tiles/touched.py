"""Tiles that a change touches, zoom by zoom, and coarser where they would be too many. PURE."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from . import zorder
from .zorder import Keys


@dataclass(frozen=True, slots=True, eq=False)
class Touched:
    """The tiles of each zoom from 0 on, as z-order numbers.

    Deeper than the last of these zooms, the tiles that those of `below` cover, which are of that last zoom.
    """

    zooms: tuple[Keys, ...]
    below: Keys = field(default_factory=zorder.none)

    @classmethod
    def nothing(cls, deepest: int = 0) -> Self:
        return cls((zorder.none(),) * (deepest + 1))

    @property
    def deepest(self) -> int:
        return len(self.zooms) - 1

    @property
    def count(self) -> int:
        return sum(map(len, self.zooms)) + len(self.below)

    def __bool__(self) -> bool:
        return self.count > 0

    def includes(self, z: int, x: int, y: int) -> bool:
        """Whether a tile is among them."""
        key = zorder.key_of(x, y)
        keys = self.zooms[z] if z <= self.deepest else self.below
        key >>= 2 * max(0, z - self.deepest)
        place = int(np.searchsorted(keys, key))
        return place < len(keys) and int(keys[place]) == key

    def tiles(self, z: int) -> set[tuple[int, int]]:
        """Columns and rows of a zoom that is told apart."""
        x, y = zorder.places_of(self.zooms[z])
        return set(zip(x.tolist(), y.tolist(), strict=True))

    def as_deep_as(self, deepest: int) -> Self:
        """The same and more: deeper than that zoom, all tiles that a touched one's ancestor there covers."""
        zooms, below = list(self.zooms), self.below
        while len(zooms) - 1 > deepest:
            below = zorder.parents(np.concatenate((zooms.pop(), below)))
        return type(self)(tuple(zooms), below)

    def at_most(self, count: int) -> Self:
        """The same and more, told by no more than so many numbers, at least one for each zoom that is left."""
        coarser = self
        while coarser.count > count and coarser.deepest > 0:
            coarser = coarser.as_deep_as(coarser.deepest - 1)
        return coarser


def joined(parts: Sequence[Touched]) -> Touched:
    """All that any of some touches, as coarse as the coarsest of them."""
    if not parts:
        return Touched.nothing()
    deepest = min(part.deepest for part in parts)
    alike = [part.as_deep_as(deepest) for part in parts]
    zooms = (zorder.distinct(np.concatenate(each)) for each in zip(*(part.zooms for part in alike), strict=True))
    return Touched(tuple(zooms), zorder.distinct(np.concatenate([part.below for part in alike])))
