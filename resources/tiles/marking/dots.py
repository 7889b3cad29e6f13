"""The tiles that look different with other points, zoom by zoom. PURE.

Clusters and the peak of a heat map are those of a whole zoom: both are found for all points, before and after.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .. import zorder
from ..arrays import Floats
from ..drawing.points import clusters, dots, heat
from ..reading.points import GLOBE, Points
from ..styling.point_style import PointStyle
from ..touched import Touched
from ..zorder import Keys
from . import covering
from .lines import DEEPEST, Zooms

TILE_PIXELS = 256
SLACK_PIXELS = 2.0
MOST_POINTS = 200_000
"""With more, all of the layer counts as changed: to cluster them for every zoom takes longer than painting does."""

Rows = NDArray[np.int64]
"""Places, and what else makes a point look as it does: x, y, …"""


def touched_by(old: Points, new: Points, style: PointStyle, zooms: Zooms) -> Touched | None:
    """The tiles that look different; None for all."""
    if max(len(old.x), len(new.x)) > MOST_POINTS:
        return None
    of = _rows_by_zoom(old, new, style)
    found: list[Keys] = []
    for zoom in range(min(zooms.largest, DEEPEST) + 1):
        keys = _around(of(zoom), style, zoom) if zoom >= zooms.smallest else zorder.none()
        if keys is None:
            break
        found.append(keys)
    if not found:
        return None
    deepest = len(found) - 1
    deeper = [_around(of(zoom), style, deepest) for zoom in range(deepest + 1, zooms.largest + 1)]
    each = [keys for keys in deeper if keys is not None]
    if len(each) < len(deeper):
        return None
    return Touched(tuple(found), zorder.distinct(np.concatenate([zorder.none(), *each])))


def _rows_by_zoom(old: Points, new: Points, style: PointStyle) -> Callable[[int], Rows]:
    """What looks different at a zoom, as the places of what was there and is not, or is and was not."""
    if style.mode == "clusters":
        return lambda zoom: _differing(*(_clusters(points, zoom, style) for points in (old, new)))
    if style.mode == "dots":
        rows = [_dots(points, style) for points in (old, new)]
        changed = _differing(*rows)
        return lambda zoom: changed
    whole = [heat.whole_weights(points.weights) for points in (old, new)]
    rows = [np.column_stack((points.x, points.y, weights)) for points, weights in zip((old, new), whole, strict=True)]
    changed, every = _differing(*rows), np.concatenate(rows)

    def of(zoom: int) -> Rows:
        before, after = (
            heat.find_peak(points, weights, zoom, style.radius)
            for points, weights in zip((old, new), whole, strict=True)
        )
        return changed if before.density == after.density else every

    return of


def _clusters(points: Points, zoom: int, style: PointStyle) -> Rows:
    found = clusters.cluster(points, zoom, style.radius)
    return np.column_stack((found.x, found.y, found.counts))


def _dots(points: Points, style: PointStyle) -> Rows:
    sized = style.radii[0] < style.radii[1]
    steps = dots.weight_steps(points.weights) if sized else np.zeros(len(points.x), np.int64)
    return np.column_stack((points.x, points.y, steps))


def _differing(old: Rows, new: Rows) -> Rows:
    """The rows of which there are more before or after."""
    rows, which = np.unique(np.concatenate((old, new)), axis=0, return_inverse=True)
    signs = np.concatenate((np.ones(len(old)), -np.ones(len(new))))
    found: Rows = rows[np.bincount(which.reshape(-1), signs, len(rows)) != 0]
    return found


def _around(rows: Rows, style: PointStyle, zoom: int) -> Keys | None:
    """The tiles of a zoom that what stands in these places reaches; None when there are too many."""
    places: Floats = rows[:, :2] * np.float64(2.0**zoom / GLOBE)
    return covering.tiles_under(places, places, (style.reach_pixels + SLACK_PIXELS) / TILE_PIXELS, zoom)
