"""Tells which tiles are older than the last change of their content. PURE.

TouchedTiles: the tiles that one change touches, zoom by zoom, coarser where they would be too many.

TileMarks: the touched tiles of all changes with their versions; tiles painted before are stale. Bounded: when
all changes together have too many tiles, the older ones make all of the layer stale.
"""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from . import grid, grid_arrays
from .grid_arrays import TileKeys


@dataclass(frozen=True, slots=True, eq=False)
class TouchedTiles:
    """The tiles of each zoom from 0 on, as z-order numbers.

    `below` are tiles of the last of these zooms: they stand for all deeper tiles that they cover.
    """

    zooms: tuple[TileKeys, ...]
    below: TileKeys = field(default_factory=grid_arrays.no_keys)

    @classmethod
    def nothing(cls, deepest: int = 0) -> Self:
        return cls((grid_arrays.no_keys(),) * (deepest + 1))

    @property
    def deepest(self) -> int:
        return len(self.zooms) - 1

    @property
    def count(self) -> int:
        return sum(map(len, self.zooms)) + len(self.below)

    def __bool__(self) -> bool:
        return self.count > 0

    def includes(self, z: int, x: int, y: int) -> bool:
        key = grid.tile_key(x, y)
        keys = self.zooms[z] if z <= self.deepest else self.below
        key >>= 2 * max(0, z - self.deepest)
        place = int(np.searchsorted(keys, key))
        return place < len(keys) and int(keys[place]) == key

    def tiles(self, z: int) -> set[tuple[int, int]]:
        """Returns columns and rows of the tiles of one of the zooms."""
        x, y = grid_arrays.key_places(self.zooms[z])
        return set(zip(x.tolist(), y.tolist(), strict=True))

    def as_deep_as(self, deepest: int) -> Self:
        """Returns the same and more: deeper than that zoom, all tiles below the touched tiles' ancestors."""
        zooms, below = list(self.zooms), self.below
        while len(zooms) - 1 > deepest:
            below = np.unique(np.concatenate((zooms.pop(), below)) >> 2)
        return type(self)(tuple(zooms), below)

    def mark_in(self, packed: bytes, version: int, after: int) -> tuple[bytes, int]:
        """Does the same as TileMarks.with_touched for packed marks."""
        marks, all_before = TileMarks.unpack(packed).with_touched(self, version, after)
        return marks.pack(), all_before

    def at_most(self, count: int) -> Self:
        """Returns the same and more in at most `count` numbers, but at least one for each remaining zoom."""
        coarser = self
        while coarser.count > count and coarser.deepest > 0:
            coarser = coarser.as_deep_as(coarser.deepest - 1)
        return coarser


def join_touched(parts: Sequence[TouchedTiles]) -> TouchedTiles:
    """Joins touched tiles, as coarse as the coarsest of the parts."""
    if not parts:
        return TouchedTiles.nothing()
    deepest = min(part.deepest for part in parts)
    alike = [part.as_deep_as(deepest) for part in parts]
    zooms = (np.unique(np.concatenate(each)) for each in zip(*(part.zooms for part in alike), strict=True))
    return TouchedTiles(tuple(zooms), np.unique(np.concatenate([part.below for part in alike])))


MAX_MARKS_PER_CHANGE = 60_000
"""Tiles marked one by one for one change."""

MAX_MARKS = 150_000
"""The same for all changes: two megabytes in every process that serves tiles, some ten kilobytes in the row."""


@dataclass(frozen=True, slots=True, eq=False)
class ZoomMarks:
    """The marked tiles of one zoom and the version at which each was touched last."""

    keys: TileKeys = field(default_factory=grid_arrays.no_keys)
    versions: NDArray[np.int64] = field(default_factory=grid_arrays.no_keys)

    def newest(self, first: int, after: int) -> int:
        """Returns the newest version of the tiles from number `first` to before `after`; 0 if there are none."""
        start, end = np.searchsorted(self.keys, (first, after))
        return int(self.versions[start:end].max()) if end > start else 0

    def above(self, version: int) -> Self:
        kept = self.versions > version
        return type(self)(self.keys[kept], self.versions[kept])

    def between(self, after: int, last: int) -> TileKeys:
        """Returns the tiles touched last after version `after`, up to `last`."""
        keys: TileKeys = self.keys[(self.versions > after) & (self.versions <= last)]
        return keys


@dataclass(frozen=True, slots=True, eq=False)
class TileMarks:
    """The same as TouchedTiles, with a version for each tile."""

    zooms: tuple[ZoomMarks, ...] = ()
    below: ZoomMarks = field(default_factory=ZoomMarks)

    @property
    def deepest(self) -> int:
        return len(self.zooms) - 1

    @property
    def count(self) -> int:
        return sum(len(each.keys) for each in self._all())

    def version_of(self, z: int, x: int, y: int, side: int = 1) -> int:
        """Returns the version at which a tile was touched last, or the newest of a metatile's tiles; 0 for never.

        For metatiles of `side` tiles (x, y) are the metatile's: it covers one tile of a lower zoom.
        """
        if not self.zooms:
            return 0
        marked = self.zooms[z] if z <= self.deepest else self.below
        key, levels = grid.tile_key(x, y), side.bit_length() - 1 - max(0, z - self.deepest)
        if levels <= 0:  # a tile, or tiles covered by one tile of the deepest zoom
            key >>= -2 * levels
            return marked.newest(key, key + 1)
        return marked.newest(key << 2 * levels, key + 1 << 2 * levels)

    def with_touched(self, touched: TouchedTiles, version: int, after: int) -> tuple[Self, int]:
        """Returns these marks and those of a change, without marks up to version `after`; and that version.

        With too many marks the version is a higher one: all tiles painted before it are stale.
        """
        new = touched.at_most(MAX_MARKS_PER_CHANGE)
        old = self._above(after)
        if not new:
            return old, after
        deepest = min(new.deepest, old.deepest) if old.count else new.deepest
        old = old._as_deep_as(deepest) if old.count else type(self)((ZoomMarks(),) * (deepest + 1))
        new = new.as_deep_as(deepest)
        zooms = tuple(map(_merge_marks, old.zooms, new.zooms, (version,) * (deepest + 1)))
        merged = type(self)(zooms, _merge_marks(old.below, new.below, version))
        while merged.count > MAX_MARKS:
            after = int(np.sort(np.concatenate([each.versions for each in merged._all()]))[merged.count // 2])
            merged = merged._above(after)
        return merged, after

    def versions(self) -> list[int]:
        """Returns the versions at which tiles were touched last, in ascending order."""
        found: list[int] = np.unique(np.concatenate([each.versions for each in self._all()])).tolist()
        return found

    def between(self, after: int, last: int) -> TouchedTiles:
        """Returns the tiles of all zooms touched last after version `after`, up to `last`."""
        return TouchedTiles(tuple(each.between(after, last) for each in self.zooms), self.below.between(after, last))

    def pack(self) -> bytes:
        """Packs the marks as bytes; empty for none."""
        if not self.count:
            return b""
        versions = np.array(self.versions(), np.int64)
        each = list(self._all())
        places = np.searchsorted(versions, np.concatenate([one.versions for one in each]))
        buffer = io.BytesIO()
        np.savez_compressed(
            buffer,
            versions=versions,
            ends=np.cumsum([len(one.keys) for one in each]),
            steps=np.diff(np.concatenate([one.keys for one in each]), prepend=0),
            places=places.astype(np.min_scalar_type(len(versions))),
        )
        return buffer.getvalue()

    @classmethod
    def unpack(cls, packed: bytes) -> Self:
        """Unpacks the bytes of `pack`. Where places have wrapped, every marked tile has the newest version."""
        if not packed:
            return cls()
        with np.load(io.BytesIO(packed), allow_pickle=False) as arrays:
            ends, known, places = arrays["ends"][:-1], arrays["versions"], arrays["places"]
            numbers = np.cumsum(arrays["steps"])
        if len(known) - 1 > np.iinfo(places.dtype).max:  # packed before places grew with the number of versions
            places = np.full(len(places), len(known) - 1)
        *zooms, below = map(ZoomMarks, np.split(numbers, ends), np.split(known[places], ends))
        return cls(tuple(zooms), below)

    def _all(self) -> Iterator[ZoomMarks]:
        yield from self.zooms
        yield self.below

    def _above(self, version: int) -> Self:
        return type(self)(tuple(each.above(version) for each in self.zooms), self.below.above(version))

    def _as_deep_as(self, deepest: int) -> Self:
        zooms, below = list(self.zooms), self.below
        while len(zooms) - 1 > deepest:
            last = zooms.pop()
            keys = np.concatenate((last.keys, below.keys)) >> 2
            below = _keep_newest(keys, np.concatenate((last.versions, below.versions)))
        return type(self)(tuple(zooms), below)


def _merge_marks(old: ZoomMarks, new: TileKeys, version: int) -> ZoomMarks:
    keys = np.concatenate((old.keys, new))
    return _keep_newest(keys, np.concatenate((old.versions, np.full(len(new), version))))


def _keep_newest(keys: TileKeys, versions: NDArray[np.int64]) -> ZoomMarks:
    """Keeps each tile once, with the newest of its versions."""
    order = np.lexsort((versions, keys))
    keys, versions = keys[order], versions[order]
    last = np.append(keys[1:] != keys[:-1], True) if len(keys) else np.empty(0, np.bool_)
    return ZoomMarks(keys[last], versions[last])
