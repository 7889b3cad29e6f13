"""The tiles that the insides of areas come upon, zoom by zoom. PURE. Their outlines are lines."""

from collections.abc import Sequence

import numpy as np
import shapely
from numpy.typing import NDArray

from .. import zorder
from ..reading.geometry import Geometry
from ..touched import Touched
from ..zorder import Keys
from .lines import DEEPEST, Zooms

MOST_TILES = 20_000
"""Of a zoom; where there are more, deeper ones follow the tiles of the zoom before."""

TURNS = (0, 1, 2)
"""Areas begin within the map and may reach so many turns of the globe beyond it."""


def touched_by(region: shapely.Geometry, zooms: Zooms) -> Touched:
    """The tiles that a region in unit mercator meets."""
    if region.is_empty:
        return Touched.nothing(min(zooms.largest, DEEPEST))
    shapely.prepare(region)
    found = [_met(region, np.zeros(1, np.int64), 0)]
    while len(found) <= min(zooms.largest, DEEPEST):
        children = (found[-1][:, None] * 4 + np.arange(4)).reshape(-1)
        if len(children) > MOST_TILES:
            break
        found.append(_met(region, children, len(found)))
    return Touched(tuple(found), zorder.none() if zooms.largest == len(found) - 1 else found[-1])


def changed_region(old: Sequence[shapely.Geometry], new: Sequence[shapely.Geometry]) -> shapely.Geometry:
    """What is inside some areas and not inside others."""
    return shapely.symmetric_difference(shapely.union_all(old), shapely.union_all(new))


def polygons_of(geometry: Geometry, features: NDArray[np.bool_]) -> list[shapely.Geometry]:
    """The areas of the features for which that is so, in unit mercator."""
    found = []
    for group in np.flatnonzero(features[geometry.features]).tolist():
        parts = range(int(geometry.groups[group]), int(geometry.groups[group + 1]))
        outer, *holes = (geometry.coordinates[geometry.offsets[part] : geometry.offsets[part + 1]] for part in parts)
        found.append(shapely.make_valid(shapely.Polygon(outer, holes)))
    return found


def _met(region: shapely.Geometry, keys: Keys, zoom: int) -> Keys:
    x, y = zorder.places_of(keys)
    side = 1 / (1 << zoom)
    met = np.zeros(len(keys), np.bool_)
    for turn in TURNS:
        west, north = x * side + turn, y * side
        met |= shapely.intersects(region, shapely.box(west, north, west + side, north + side))
    found: Keys = keys[met]
    return found
