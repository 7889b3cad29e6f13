"""Which tiles of a layer changes have touched, and at which version: those painted from before are stale. PURE.

Bounded: a change of too many tiles is told more coarsely, and when all changes together have too many,
the older of them make all of the layer stale as of the newest of these.
"""

import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from . import zorder
from .touched import Touched
from .zorder import Keys

MOST_OF_A_CHANGE = 60_000
"""So many tiles are told apart of one change, at most."""

MOST = 150_000
"""And of all changes: two megabytes in every process that serves tiles, some ten kilobytes in the row."""


@dataclass(frozen=True, slots=True, eq=False)
class Marked:
    """Tiles of one zoom and the version at which each was touched last."""

    keys: Keys = field(default_factory=zorder.none)
    versions: NDArray[np.int64] = field(default_factory=zorder.none)

    def newest(self, first: int, after: int) -> int:
        """The newest version among the tiles from one number to before another; 0 if there is none."""
        start, end = np.searchsorted(self.keys, (first, after))
        return int(self.versions[start:end].max()) if end > start else 0

    def above(self, version: int) -> Self:
        """Those that were touched after a version."""
        kept = self.versions > version
        return type(self)(self.keys[kept], self.versions[kept])

    def between(self, after: int, last: int) -> Keys:
        """The tiles whose last version is above one, and not above another."""
        keys: Keys = self.keys[(self.versions > after) & (self.versions <= last)]
        return keys


@dataclass(frozen=True, slots=True, eq=False)
class Marks:
    """As Touched, with a version for each tile."""

    zooms: tuple[Marked, ...] = ()
    below: Marked = field(default_factory=Marked)

    @property
    def deepest(self) -> int:
        return len(self.zooms) - 1

    @property
    def count(self) -> int:
        return sum(len(each.keys) for each in self._all())

    def version_of(self, z: int, x: int, y: int, side: int = 1) -> int:
        """The version at which a tile was touched last, or the newest of a block's tiles; 0 for never.

        Of blocks of `side` tiles (x, y) are the block's: it covers one tile of a smaller zoom.
        """
        if not self.zooms:
            return 0
        marked = self.zooms[z] if z <= self.deepest else self.below
        key, levels = zorder.key_of(x, y), side.bit_length() - 1 - max(0, z - self.deepest)
        if levels <= 0:  # a tile, or what one tile of the deepest zoom covers
            key >>= -2 * levels
            return marked.newest(key, key + 1)
        return marked.newest(key << 2 * levels, key + 1 << 2 * levels)

    def with_touched(self, touched: Touched, version: int, after: int) -> tuple[Self, int]:
        """These marks and those of a change, without what is not after a version; and that version.

        The version is a higher one where there are too many marks: all that was painted from before is stale.
        """
        new = touched.at_most(MOST_OF_A_CHANGE)
        old = self._above(after)
        if not new:
            return old, after
        deepest = min(new.deepest, old.deepest) if old.count else new.deepest
        old, new = old._as_deep_as(deepest) if old.count else type(self)._none(deepest), new.as_deep_as(deepest)
        zooms = tuple(map(_over, old.zooms, new.zooms, (version,) * (deepest + 1)))
        merged = type(self)(zooms, _over(old.below, new.below, version))
        while merged.count > MOST:
            after = merged._middle_version()
            merged = merged._above(after)
        return merged, after

    def versions(self) -> list[int]:
        """The versions at which tiles were touched last, in their order."""
        found: list[int] = np.unique(np.concatenate([each.versions for each in self._all()])).tolist()
        return found

    def between(self, after: int, last: int) -> Touched:
        """What was touched last at a version above one, and not above another."""
        return Touched(tuple(each.between(after, last) for each in self.zooms), self.below.between(after, last))

    def pack(self) -> bytes:
        """The marks as bytes; empty for none."""
        if not self.count:
            return b""
        versions = np.array(self.versions(), np.int64)
        each = list(self._all())
        buffer = io.BytesIO()
        np.savez_compressed(
            buffer,
            versions=versions,
            ends=np.cumsum([len(one.keys) for one in each]),
            steps=np.diff(np.concatenate([one.keys for one in each]), prepend=0),
            places=np.searchsorted(versions, np.concatenate([one.versions for one in each])).astype(np.uint16),
        )
        return buffer.getvalue()

    @classmethod
    def unpack(cls, packed: bytes) -> Self:
        if not packed:
            return cls()
        with np.load(io.BytesIO(packed), allow_pickle=False) as arrays:
            ends = arrays["ends"][:-1]
            keys = np.split(np.cumsum(arrays["steps"]), ends)
            versions = np.split(arrays["versions"][arrays["places"]], ends)
        *zooms, below = map(Marked, keys, versions)
        return cls(tuple(zooms), below)

    def _all(self) -> Iterator[Marked]:
        yield from self.zooms
        yield self.below

    @classmethod
    def _none(cls, deepest: int) -> Self:
        return cls((Marked(),) * (deepest + 1))

    def _above(self, version: int) -> Self:
        return type(self)(tuple(each.above(version) for each in self.zooms), self.below.above(version))

    def _as_deep_as(self, deepest: int) -> Self:
        zooms, below = list(self.zooms), self.below
        while len(zooms) - 1 > deepest:
            last = zooms.pop()
            keys = np.concatenate((last.keys, below.keys)) >> 2
            below = _newest(keys, np.concatenate((last.versions, below.versions)))
        return type(self)(tuple(zooms), below)

    def _middle_version(self) -> int:
        return int(np.sort(np.concatenate([each.versions for each in self._all()]))[self.count // 2])


def _over(old: Marked, new: Keys, version: int) -> Marked:
    keys = np.concatenate((old.keys, new))
    return _newest(keys, np.concatenate((old.versions, np.full(len(new), version))))


def _newest(keys: Keys, versions: NDArray[np.int64]) -> Marked:
    """Each tile once, with the newest of its versions."""
    order = np.lexsort((versions, keys))
    keys, versions = keys[order], versions[order]
    last = np.append(keys[1:] != keys[:-1], True) if len(keys) else np.empty(0, np.bool_)
    return Marked(keys[last], versions[last])
