"""Joins the points of one zoom into clusters, the same for every tile, and draws them as discs with counts.

Points are gathered into cells of half the radius, on a lattice round the whole globe. A cell has the number of
its points and their middle, in whole numbers: the order of the points makes no difference. The cell with the
most points takes in the cells within the radius, then the largest remaining cell does, and so on; clusters that
have moved close together are joined again. All cells that are the largest around are dealt with at once, with
the same result as one after the other. After supercluster, https://github.com/mapbox/supercluster, which takes
points in the order of the data instead.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from .. import styles
from ..data import arrays
from ..data.arrays import Points
from ..grid_arrays import PixelPlaces
from ..styles import PointStyle
from ..window import SUPERSAMPLING, Window

TILE_PIXELS = 256
CellPairs: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64]]


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """The cells with points, in the order of their keys: row × columns + column."""

    columns: int
    keys: NDArray[np.int64]
    amounts: NDArray[np.int64]
    x: PixelPlaces
    y: PixelPlaces


def gather_cells(x: PixelPlaces, y: PixelPlaces, amounts: NDArray[np.int64], zoom: int, per_tile: int) -> Cells:
    """Gathers points into the cells of a zoom, `per_tile` of them along a tile's side. Cells do not cross ±180°.

    The middle of a cell is that of its points, each weighted by its amount, which is above 0.
    """
    columns = per_tile << zoom
    keys = (y * columns >> arrays.GLOBE_BITS) * columns + (x * columns >> arrays.GLOBE_BITS)
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    totals = np.add.reduceat(amounts[order], starts)
    middles = [np.add.reduceat((places * amounts)[order], starts) // totals for places in (x, y)]
    return Cells(columns, keys[starts], totals, middles[0], middles[1])


def neighbour_pairs(cells: Cells, reach: int) -> CellPairs:
    """Returns pairs of cells at most `reach` cells apart in either direction, across ±180° too.

    On a globe of few columns a pair may come twice.
    """
    rows, columns = np.divmod(cells.keys, cells.columns)
    firsts, seconds = [], []
    for down in range(reach + 1):
        for along in range(-reach if down else 1, reach + 1):
            wanted = (rows + down) * cells.columns + (columns + along) % cells.columns
            places = np.minimum(np.searchsorted(cells.keys, wanted), len(cells.keys) - 1)
            found = np.flatnonzero((cells.keys[places] == wanted) & (places != np.arange(len(places))))
            firsts.append(found)
            seconds.append(places[found])
    return np.concatenate(firsts), np.concatenate(seconds)


def pair_steps(cells: Cells, pairs: CellPairs) -> tuple[PixelPlaces, PixelPlaces]:
    """Returns the distances, along and down, from the first cell's middle to the second's of each pair."""
    first, second = pairs
    return arrays.wrap_steps(cells.x[second] - cells.x[first]), cells.y[second] - cells.y[first]


MAX_JOIN_ROUNDS = 4
"""Clusters move when they are joined, and may come near others again: at most this often."""

_MIXER = 0x9E3779B97F4A7C15 - (1 << 64)
"""2⁶⁴ ÷ the golden ratio: Knuth, The Art of Computer Programming 3, 6.4. Scatters the keys of equal cells."""


@dataclass(frozen=True, slots=True, eq=False)
class Clusters:
    """All clusters of a zoom in the order of drawing: the largest last. A cluster of count 1 is a point."""

    x: PixelPlaces
    y: PixelPlaces
    counts: NDArray[np.int64]


def cluster_points(of: Points, zoom: int, radius_pixels: float) -> Clusters:
    """Joins the points of a whole zoom into clusters: every point is in one of them."""
    per_tile = max(1, int(2 * TILE_PIXELS / radius_pixels))
    reach = radius_pixels * (1 << (arrays.GLOBE_BITS - 8 - zoom))
    found = gather_cells(of.x, of.y, np.ones(len(of.x), np.int64), zoom, per_tile)
    for _ in range(MAX_JOIN_ROUNDS):
        pairs = _pairs_within(found, neighbour_pairs(found, 2), reach)
        if not len(pairs[0]):
            break
        x, y, counts = _join_cells(found, _choose_owners(found, pairs))
        found = gather_cells(x, y, counts, zoom, per_tile)
    order = np.lexsort((found.keys, found.amounts))
    return Clusters(found.x[order], found.y[order], found.amounts[order])


def _pairs_within(found: Cells, pairs: CellPairs, reach: float) -> CellPairs:
    along, down = pair_steps(found, pairs)
    close = along.astype(np.float64) ** 2 + down.astype(np.float64) ** 2 < reach**2
    return pairs[0][close], pairs[1][close]


def _choose_owners(found: Cells, pairs: CellPairs) -> NDArray[np.int64]:
    """Returns for each cell the cell that takes it in, or itself.

    Equal cells take turns by scattered keys: in the order of their places, a long row of them would take
    as many rounds as it has cells.
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


def _join_cells(found: Cells, owners: NDArray[np.int64]) -> tuple[PixelPlaces, PixelPlaces, NDArray[np.int64]]:
    """Joins cells with their owners. Returns middles, computed from the owner's and so across ±180°, and counts."""
    order = np.argsort(owners, kind="stable")
    starts = np.flatnonzero(np.diff(owners[order], prepend=-1))
    leaders = owners[order][starts]
    counts = np.add.reduceat(found.amounts[order], starts)
    along = arrays.wrap_steps(found.x - found.x[owners]) * found.amounts
    down = (found.y - found.y[owners]) * found.amounts
    x = (found.x[leaders] + np.add.reduceat(along[order], starts) // counts) % arrays.GLOBE_UNITS
    y = found.y[leaders] + np.add.reduceat(down[order], starts) // counts
    return x, y, counts


POINT_RADIUS_PIXELS = 4.0
MAX_TEXT_RADII = 1.45
"""Largest width of a number, in radii of its disc."""

MAX_STAMPS_KEPT = 2048

Stamp = NDArray[np.uint8]


def draw_clusters(clusters: Clusters, style: PointStyle, window: Window, scale: int) -> Image.Image | None:
    """Draws the window's index colours; None when no disc is near. Discs and numbers stay whole at any cut."""
    reach = int(style.reach_pixels * SUPERSAMPLING * scale) + 1
    seen = arrays.find_points_near(clusters.x, clusters.y, window, reach)
    if not len(seen.chosen):
        return None
    canvas = np.zeros((window.height + 4 * reach, window.width + 4 * reach), np.uint8)
    order = np.lexsort((seen.x, seen.chosen))
    counts = clusters.counts[seen.chosen]
    for at in order.tolist():
        stamp = make_stamp(int(counts[at]), style.radius, scale)
        side = len(stamp)
        top, left = int(seen.y[at]) + 2 * reach - side // 2, int(seen.x[at]) + 2 * reach - side // 2
        under = canvas[top : top + side, left : left + side]
        np.copyto(under, stamp, where=stamp > 0)
    kept = canvas[2 * reach : 2 * reach + window.height, 2 * reach : 2 * reach + window.width]
    return Image.fromarray(np.ascontiguousarray(kept))


def make_stamp(count: int, radius: float, scale: int) -> Stamp:
    """Draws the index colours of one disc, a square of odd side with the disc in its middle."""
    if count == 1:
        return _draw_stamp("", min(POINT_RADIUS_PIXELS, radius / 4), styles.CLUSTER_POINT, scale)
    colour = styles.CLUSTER_FEW
    if count >= styles.CLUSTER_SOME_FROM:
        colour = styles.CLUSTER_MANY if count >= styles.CLUSTER_MANY_FROM else styles.CLUSTER_SOME
    return _draw_stamp(abbreviate_count(count), styles.cluster_radius(radius, count), colour, scale)


@lru_cache(maxsize=MAX_STAMPS_KEPT)
def _draw_stamp(text: str, radius_pixels: float, colour: int, scale: int) -> Stamp:
    radius = round(radius_pixels * SUPERSAMPLING * scale)
    outer = radius + round(styles.POINT_OUTLINE_PIXELS["clusters"] * SUPERSAMPLING * scale)
    stamp = np.where(disc_mask(outer, outer), np.uint8(styles.CLUSTER_RIM), np.uint8(0))
    stamp[disc_mask(radius, outer)] = colour
    if text:
        stamp[_text_mask(text, radius, 2 * outer + 1)] = styles.CLUSTER_TEXT
    stamp.setflags(write=False)
    return stamp


def disc_mask(radius: int, half: int) -> NDArray[np.bool_]:
    squares = np.arange(-half, half + 1) ** 2
    return np.asarray(squares[:, None] + squares[None, :] <= radius * (radius + 1))


def _text_mask(text: str, radius: int, side: int) -> NDArray[np.bool_]:
    """Returns the mask of the text in the middle of a square of that side, as large as fits."""
    drawn = Image.new("1", (2 * side, 2 * side))
    ImageDraw.Draw(drawn).text((side // 2, side // 2), text, fill=1, font=_fitting_font(text, radius))
    cut = drawn.crop(drawn.getbbox())
    mask = Image.new("1", (side, side))
    mask.paste(cut, ((side - cut.width) // 2, (side - cut.height) // 2))
    return np.asarray(mask)


def _fitting_font(text: str, radius: int) -> ImageFont.FreeTypeFont:
    """Returns Pillow's own font in the largest size, up to the disc's radius, in which the text fits the disc."""
    size = max(6, radius)
    while size > 6 and _load_font(size).getlength(text) > MAX_TEXT_RADII * radius:
        size -= 1
    return _load_font(size)


@lru_cache(maxsize=256)
def _load_font(size: int) -> ImageFont.FreeTypeFont:
    font = ImageFont.load_default(size)
    if not isinstance(font, ImageFont.FreeTypeFont):
        raise TypeError("Pillow was built without FreeType.")
    return font


def abbreviate_count(count: int) -> str:
    """Writes a count in at most four characters: 999, 1.2k, 12k, 1.2M. Rounds down, never claiming too much."""
    if count < 1000:
        return str(count)
    unit, letter = (1000, "k") if count < 1_000_000 else (1_000_000, "M")
    tenths = count * 10 // unit
    return f"{tenths // 10}.{tenths % 10}{letter}" if tenths < 100 and tenths % 10 else f"{tenths // 10}{letter}"
