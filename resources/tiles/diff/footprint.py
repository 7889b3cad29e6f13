"""Finds the tiles covered by a shape, zoom by zoom: by strokes, by the insides of areas, by changed points.

A stroke is an edge and all points within half its width along either axis: at its ends and bends that is a
little more than the drawn stroke. The outlines of areas are lines. Clusters and the peak of a heat map belong
to a whole zoom: both are found for all points, before and after.
"""

from collections.abc import Callable

import numpy as np
import shapely
from numpy.typing import NDArray

from .. import grid_arrays
from ..data.arrays import GLOBE_UNITS, Geometry, Points
from ..grid_arrays import Floats, Indexes, TileKeys
from ..render import canvas, clusters, heat, scene
from ..render.scene import LatticeLines
from ..styles import PointStyle, Style
from ..tile_marks import TouchedTiles
from ..window import LATTICE_PIXELS, SUPERSAMPLING

MAX_MEETINGS = 2_000_000
"""Meetings of edges with columns, and with tiles: bounds time and memory."""


def tiles_under_strokes(starts: Floats, ends: Floats, half_width: float, zoom: int) -> TileKeys | None:
    """Returns the tiles of a zoom that strokes cross; None when there are too many.

    All lengths are in tiles of the zoom; x beyond the map is turned back into it.
    """
    turned = starts[:, :1] > ends[:, :1]
    west, east = np.where(turned, ends, starts), np.where(turned, starts, ends)
    edges, columns = _whole_numbers(west[:, 0] - half_width, east[:, 0] + half_width)
    if edges is None or columns is None:
        return None
    north, south = _row_spans(west[edges], east[edges], columns, half_width)
    tiles = 1 << zoom
    met, rows = _whole_numbers(np.maximum(north - half_width, 0), np.minimum(south + half_width, tiles - 0.5))
    if met is None or rows is None:
        return None
    return np.unique(grid_arrays.tile_keys(columns[met] % tiles, rows))


def _whole_numbers(firsts: Floats, lasts: Floats) -> tuple[Indexes, Indexes] | tuple[None, None]:
    """Returns the owners and the whole numbers from each first to its last; None when there are too many."""
    low = np.floor(firsts).astype(np.int64)
    counts = np.maximum(np.floor(lasts).astype(np.int64) - low + 1, 0)
    total = int(counts.sum())
    if total > MAX_MEETINGS:
        return None, None
    owners = np.repeat(np.arange(len(counts)), counts)
    numbers = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts) + low[owners]
    return owners, numbers


def _row_spans(west: Floats, east: Floats, columns: Indexes, half_width: float) -> tuple[Floats, Floats]:
    """Returns the northern and southern ends of edges within a column and half a width to both sides of it."""
    run = east[:, 0] - west[:, 0]
    slope = np.divide(east[:, 1] - west[:, 1], run, out=np.zeros(len(run)), where=run > 0)
    enters = np.clip(columns - half_width, west[:, 0], east[:, 0])
    leaves = np.clip(columns + 1 + half_width, west[:, 0], east[:, 0])
    first = west[:, 1] + slope * (enters - west[:, 0])
    last = np.where(run > 0, west[:, 1] + slope * (leaves - west[:, 0]), east[:, 1])
    return np.minimum(first, last), np.maximum(first, last)


DEEPEST_ZOOM = 16
"""The deepest zoom with tiles of its own: some 400 metres in London. It stands for all deeper ones."""

STROKE_SLACK_PIXELS = 3.0
"""Lattice pixels: vertices are rounded to them, lines thinned by less than one, strokes drawn in whole ones."""

TILE_SCALES = (1, 2)


def tiles_of_lines(geometry: Geometry, features: NDArray[np.bool_], style: Style, zooms: range) -> TouchedTiles:
    """Returns the tiles, of either scale, crossed by the strokes of the selected features."""
    parts, _ = scene.gather_rows(geometry.groups, np.flatnonzero(features[geometry.features]))
    rows, offsets = scene.gather_rows(geometry.offsets, parts)
    coordinates = geometry.coordinates[rows]
    found: list[TileKeys] = [grid_arrays.no_keys()] * min(zooms[0], DEEPEST_ZOOM)
    if not len(parts):
        return TouchedTiles.nothing(min(zooms[-1], DEEPEST_ZOOM))
    for zoom in range(len(found), min(zooms[-1], DEEPEST_ZOOM) + 1):
        keys = _tiles_at_zoom(coordinates, offsets, zoom, stroke_reach(style, zoom, zoom))
        if keys is None:
            break
        found.append(keys)
    deepest = len(found) - 1
    if zooms[-1] == deepest:
        return TouchedTiles(tuple(found))
    below = _tiles_at_zoom(coordinates, offsets, deepest, stroke_reach(style, deepest, zooms[-1]))
    return TouchedTiles(tuple(found), found[-1] if below is None else below)


def stroke_reach(style: Style, zoom: int, largest: int) -> float:
    """Returns the distance from its line at which a stroke may be seen.

    Holds for the zooms from `zoom` to `largest`, in lattice pixels of the first.
    """
    return STROKE_SLACK_PIXELS + max(
        canvas.odd_stroke_width(style.width_at(each) * SUPERSAMPLING * scale) / 2 / (scale << (each - zoom))
        for each in range(zoom, largest + 1)
        for scale in TILE_SCALES
    )


def _tiles_at_zoom(coordinates: Floats, offsets: Indexes, zoom: int, half: float) -> TileKeys | None:
    starts, ends = line_edges(scene.simplify_lines(coordinates, offsets, zoom))
    return tiles_under_strokes(starts / LATTICE_PIXELS, ends / LATTICE_PIXELS, half / LATTICE_PIXELS, zoom)


def line_edges(lines: LatticeLines) -> tuple[Floats, Floats]:
    """Returns start and end of each edge; a part that is a point has one edge of length 0."""
    ends = np.roll(lines.coordinates, -1, axis=0)
    last = lines.offsets[1:] - 1
    ends[last] = lines.coordinates[last]
    return lines.coordinates, ends


MAX_REGION_TILES = 20_000
"""Tiles of one zoom; with more, the tiles of the zoom before stand for all deeper ones."""

AREA_TURNS = (0, 1, 2)
"""Areas begin within the map and may reach these turns of the globe beyond it."""


def tiles_of_region(region: shapely.Geometry, zooms: range) -> TouchedTiles:
    if region.is_empty:
        return TouchedTiles.nothing(min(zooms[-1], DEEPEST_ZOOM))
    shapely.prepare(region)
    found = [_tiles_meeting(region, np.zeros(1, np.int64), 0)]
    while len(found) <= min(zooms[-1], DEEPEST_ZOOM):
        children = (found[-1][:, None] * 4 + np.arange(4)).reshape(-1)
        if len(children) > MAX_REGION_TILES:
            break
        found.append(_tiles_meeting(region, children, len(found)))
    return TouchedTiles(tuple(found), grid_arrays.no_keys() if zooms[-1] == len(found) - 1 else found[-1])


def feature_polygons(geometry: Geometry, features: NDArray[np.bool_]) -> list[shapely.Geometry]:
    found = []
    for group in np.flatnonzero(features[geometry.features]).tolist():
        parts = range(int(geometry.groups[group]), int(geometry.groups[group + 1]))
        outer, *holes = (geometry.coordinates[geometry.offsets[part] : geometry.offsets[part + 1]] for part in parts)
        found.append(shapely.make_valid(shapely.Polygon(outer, holes)))
    return found


def _tiles_meeting(region: shapely.Geometry, keys: TileKeys, zoom: int) -> TileKeys:
    x, y = grid_arrays.key_places(keys)
    side = 1 / (1 << zoom)
    met = np.zeros(len(keys), np.bool_)
    for turn in AREA_TURNS:
        west, north = x * side + turn, y * side
        met |= shapely.intersects(region, shapely.box(west, north, west + side, north + side))
    found: TileKeys = keys[met]
    return found


POINT_SLACK_PIXELS = 2.0
MAX_POINTS = 200_000
"""With more, all of the layer counts as changed: to cluster them for every zoom takes longer than painting does."""

PointRows = NDArray[np.int64]
"""Rows of x, y and the other values that a point's look depends on."""


def tiles_of_changed_points(old: Points, new: Points, style: PointStyle, zooms: range) -> TouchedTiles | None:
    """Returns the tiles that look different; None for all."""
    if max(len(old.x), len(new.x)) > MAX_POINTS:
        return None
    of = _changed_rows_by_zoom(old, new, style)
    found: list[TileKeys] = []
    for zoom in range(min(zooms[-1], DEEPEST_ZOOM) + 1):
        keys = _tiles_around(of(zoom), style, zoom) if zoom >= zooms[0] else grid_arrays.no_keys()
        if keys is None:
            break
        found.append(keys)
    if not found:
        return None
    deepest = len(found) - 1
    deeper = [_tiles_around(of(zoom), style, deepest) for zoom in range(deepest + 1, zooms[-1] + 1)]
    each = [keys for keys in deeper if keys is not None]
    if len(each) < len(deeper):
        return None
    return TouchedTiles(tuple(found), np.unique(np.concatenate([grid_arrays.no_keys(), *each])))


def _changed_rows_by_zoom(old: Points, new: Points, style: PointStyle) -> Callable[[int], PointRows]:
    """Returns a function from a zoom to the rows that look different there: those gone and those new."""
    if style.mode == "clusters":
        return lambda zoom: _differing_rows(*(_cluster_rows(points, zoom, style) for points in (old, new)))
    if style.mode == "dots":
        rows = [_dot_rows(points, style) for points in (old, new)]
        changed = _differing_rows(*rows)
        return lambda zoom: changed
    whole = [heat.scale_weights(points.weights) for points in (old, new)]
    rows = [np.column_stack((points.x, points.y, weights)) for points, weights in zip((old, new), whole, strict=True)]
    changed, every = _differing_rows(*rows), np.concatenate(rows)

    def of(zoom: int) -> PointRows:
        peaks = {heat.find_peak(*each, zoom, style.radius) for each in zip((old, new), whole, strict=True)}
        return changed if len(peaks) == 1 else every

    return of


def _cluster_rows(points: Points, zoom: int, style: PointStyle) -> PointRows:
    found = clusters.cluster_points(points, zoom, style.radius)
    return np.column_stack((found.x, found.y, found.counts))


def _dot_rows(points: Points, style: PointStyle) -> PointRows:
    sized = style.radii[0] < style.radii[1]
    steps = heat.weight_steps(points.weights) if sized else np.zeros(len(points.x), np.int64)
    return np.column_stack((points.x, points.y, steps))


def _differing_rows(old: PointRows, new: PointRows) -> PointRows:
    """Returns the rows whose number differs between before and after."""
    rows, which = np.unique(np.concatenate((old, new)), axis=0, return_inverse=True)
    signs = np.concatenate((np.ones(len(old)), -np.ones(len(new))))
    found: PointRows = rows[np.bincount(which.reshape(-1), signs, len(rows)) != 0]
    return found


def _tiles_around(rows: PointRows, style: PointStyle, zoom: int) -> TileKeys | None:
    """Returns the tiles of a zoom that points in these places reach; None when there are too many."""
    places: Floats = rows[:, :2] * np.float64(2.0**zoom / GLOBE_UNITS)
    return tiles_under_strokes(places, places, (style.reach_pixels + POINT_SLACK_PIXELS) / clusters.TILE_PIXELS, zoom)
