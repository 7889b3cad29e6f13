"""Which of the tiles that changed lines come upon look different: elsewhere worse classes are drawn over them. PURE.

Paints what is around the changed lines, before and after. Takes bounded work: what is not looked at counts as
different.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .. import zorder
from ..arrays import Floats, Indexes
from ..drawing import painting, scene, simplifying, strokes
from ..drawing.scene import Index, Scene
from ..reading.geometry import Geometry
from ..styling.style import Style
from ..tile import Tile
from ..touched import Touched
from ..window import SUPERSAMPLING, Window
from ..zorder import Keys
from .lines import SCALES

MOST_ROWS = 3_000_000
"""Of geometry that are painted for one change: a third of a second."""

ROWS_OF_A_LOOK = 40_000
"""So many rows cost as much as what is to be done for a look besides."""

FEW_GROUPS = 2_000
"""Where more are near, so many of them are tried first: at small zooms they cover all there is."""

TURNS = (-1, 0, 1)

Classes = NDArray[np.uint8]


@dataclass(slots=True, eq=False)
class Sight:
    """Lines with their classes before and after a change. `rows_left` is the work that may still be done."""

    geometry: Geometry
    before: Classes
    after: Classes
    style: Style
    lows: Floats
    highs: Floats
    changed: Indexes
    west: float
    east: float
    rows_left: int

    def differs(self, z: int, x: int, y: int) -> bool:
        """Whether a tile looks different, at any scale; True when that is too much work to find out."""
        return any(self._differs(Tile("", z, x, y, scale)) for scale in SCALES)

    def _differs(self, tile: Tile) -> bool:
        width = strokes.odd_width(self.style.width_at(tile.z) * SUPERSAMPLING * tile.scale)
        reach = width / 2 + 4
        whole = Window.of(tile)
        there = self.changed[self._near(whole, reach, self.changed)]
        window = self._around(whole, there, int(reach) + 1)
        if window is None:
            return False
        near = np.flatnonzero(self._near(window, reach))
        if len(near) > FEW_GROUPS and not self._looks_different(self._some_of(near), window, tile):
            return False
        return self._looks_different(near, window, tile)

    def _looks_different(self, groups: Indexes, window: Window, tile: Tile) -> bool:
        rows = int((self._ends[groups] - self._firsts[groups]).sum())
        if self.rows_left < rows + ROWS_OF_A_LOOK:
            return True
        self.rows_left -= rows + ROWS_OF_A_LOOK
        index = Index.of_near(_only(self.geometry, groups))
        before, after = (self._paint(index, classes, window, tile) for classes in (self.before, self.after))
        return not np.array_equal(before, after)

    def _paint(self, index: Index, classes: Classes, window: Window, tile: Tile) -> NDArray[np.uint8]:
        image = painting.draw(Scene("lines", index, classes, self.style), window, tile.z, tile.scale)
        return np.zeros(0, np.uint8) if image is None else np.asarray(image)

    def _some_of(self, groups: Indexes) -> Indexes:
        """The changed groups and a few of the others."""
        changed = np.isin(groups, self.changed)
        over = np.flatnonzero(~changed)
        return np.sort(np.concatenate((groups[changed], groups[over[:: len(over) // FEW_GROUPS + 1]])))

    def _near(self, window: Window, reach: float, groups: Indexes | slice = slice(None)) -> NDArray[np.bool_]:
        """Which of the groups have boxes that come near a window, whichever turn of the globe they are on."""
        lows, highs = self.lows[groups], self.highs[groups]
        found = np.zeros(len(lows), np.bool_)
        for turn in window.turns(self.west, self.east, reach):
            u0, v0, u1, v1 = window.unit_box(reach, turn)
            found |= (lows[:, 0] <= u1) & (highs[:, 0] >= u0) & (lows[:, 1] <= v1) & (highs[:, 1] >= v0)
        return found

    def _around(self, whole: Window, groups: Indexes, reach: int) -> Window | None:
        """What of a window some groups may be seen in; None where they pass it by."""
        if not len(groups):
            return None
        globe = whole.globe
        corners = [
            _overlap(whole, self.lows[groups].min(axis=0) * globe, self.highs[groups].max(axis=0) * globe, turn, reach)
            for turn in TURNS
        ]
        found = [corner for corner in corners if corner is not None]
        if not found:
            return None
        west, north = min(each[0] for each in found), min(each[1] for each in found)
        east, south = max(each[2] for each in found), max(each[3] for each in found)
        return Window(whole.level, west, north, east - west, south - north)

    @property
    def _firsts(self) -> Indexes:
        return self.geometry.offsets[self.geometry.groups[:-1]]

    @property
    def _ends(self) -> Indexes:
        return self.geometry.offsets[self.geometry.groups[1:]]


def seen(geometry: Geometry, before: Classes, after: Classes, style: Style, touched: Touched) -> Touched:
    """The tiles of those that look different, as far as that is found out; those deeper than the last zoom stay."""
    shapes = _not_below_changes(geometry, before, after)
    lows, highs = scene.group_boxes(shapes)
    changed = np.flatnonzero((before != after)[shapes.features])
    west, east = float(lows[:, 0].min()), float(highs[:, 0].max())
    sight = Sight(shapes, before, after, style, lows, highs, changed, west, east, MOST_ROWS)
    return Touched(tuple(_seen(sight, z, keys) for z, keys in enumerate(touched.zooms)), touched.below)


def _not_below_changes(geometry: Geometry, before: Classes, after: Classes) -> Geometry:
    """Without the groups that are drawn before all that changes, where they hide nothing of it."""
    worse = np.maximum(before, after)[geometry.features]
    changed = (before != after)[geometry.features]
    return _only(geometry, np.flatnonzero(worse >= worse[changed].min()))


def _seen(sight: Sight, z: int, keys: Keys) -> Keys:
    if sight.rows_left < ROWS_OF_A_LOOK:
        return keys
    x, y = zorder.places_of(keys)
    different = [sight.differs(z, column, row) for column, row in zip(x.tolist(), y.tolist(), strict=True)]
    found: Keys = keys[np.array(different, np.bool_)]
    return found


def _overlap(whole: Window, low: Floats, high: Floats, turn: int, reach: int) -> tuple[int, int, int, int] | None:
    """Where a box, in pixels, moved by turns of the globe and `reach` larger, overlaps a window."""
    west = max(whole.x, int(low[0]) + turn * whole.globe - reach)
    east = min(whole.x + whole.width, int(high[0]) + turn * whole.globe + reach + 1)
    north, south = max(whole.y, int(low[1]) - reach), min(whole.y + whole.height, int(high[1]) + reach + 1)
    return (west, north, east, south) if west < east and north < south else None


def _only(geometry: Geometry, groups: Indexes) -> Geometry:
    """Some groups of a geometry. The features' numbers stay."""
    parts, of_group = simplifying.gather(geometry.groups, groups)
    rows, offsets = simplifying.gather(geometry.offsets, parts)
    return Geometry(
        geometry.coordinates[rows], offsets, geometry.rings[parts], of_group, geometry.features[groups], geometry.bounds
    )
