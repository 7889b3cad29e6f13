"""The tiles that lines and outlines come upon, zoom by zoom, with their width in mind. PURE."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .. import zorder
from ..arrays import Floats, Indexes
from ..drawing import simplifying, strokes
from ..drawing.simplifying import Lines
from ..reading.geometry import Geometry
from ..styling.style import Style
from ..touched import Touched
from ..window import LATTICE_PIXELS, SUPERSAMPLING
from ..zorder import Keys
from . import covering

DEEPEST = 16
"""Tiles are told apart down to this zoom: some 400 metres in London. Deeper ones follow the one that covers them."""

SLACK_PIXELS = 3.0
"""Of the lattice: vertices are rounded to its pixels, lines thinned by less than one, strokes drawn in whole ones."""

SCALES = (1, 2)


@dataclass(frozen=True, slots=True)
class Zooms:
    """The zooms of a layer, from the smallest to the largest."""

    smallest: int
    largest: int

    @property
    def told_apart(self) -> range:
        return range(self.smallest, min(self.largest, DEEPEST) + 1)


def touched_by(geometry: Geometry, features: NDArray[np.bool_], style: Style, zooms: Zooms) -> Touched:
    """The tiles, of either scale, that are come upon by the strokes of the features for which that is so."""
    parts = parts_of(geometry, features)
    rows, offsets = simplifying.gather(geometry.offsets, parts)
    coordinates = geometry.coordinates[rows]
    found: list[Keys] = [zorder.none()] * min(zooms.smallest, DEEPEST)
    if not len(parts):
        return Touched.nothing(max(zooms.told_apart, default=DEEPEST))
    for zoom in range(len(found), min(zooms.largest, DEEPEST) + 1):
        keys = _under(coordinates, offsets, zoom, half_width(style, zoom, zoom))
        if keys is None:
            break
        found.append(keys)
    deepest = len(found) - 1
    if zooms.largest == deepest:
        return Touched(tuple(found))
    below = _under(coordinates, offsets, deepest, half_width(style, deepest, zooms.largest))
    return Touched(tuple(found), found[-1] if below is None else below)


def parts_of(geometry: Geometry, features: NDArray[np.bool_]) -> Indexes:
    """The parts of the features for which that is so."""
    groups = np.flatnonzero(features[geometry.features])
    parts, _ = simplifying.gather(geometry.groups, groups)
    return parts


def half_width(style: Style, zoom: int, largest: int) -> float:
    """How far from its line a stroke may be seen at any zoom from one to another, in lattice pixels of the first."""
    return SLACK_PIXELS + max(
        strokes.odd_width(style.width_at(each) * SUPERSAMPLING * scale) / 2 / (scale << (each - zoom))
        for each in range(zoom, largest + 1)
        for scale in SCALES
    )


def _under(coordinates: Floats, offsets: Indexes, zoom: int, half: float) -> Keys | None:
    starts, ends = edges_of(simplifying.simplify(coordinates, offsets, zoom))
    return covering.tiles_under(starts / LATTICE_PIXELS, ends / LATTICE_PIXELS, half / LATTICE_PIXELS, zoom)


def edges_of(lines: Lines) -> tuple[Floats, Floats]:
    """Start and end of each edge; a part that is a point has one of no length."""
    ends = np.roll(lines.coordinates, -1, axis=0)
    last = lines.offsets[1:] - 1
    ends[last] = lines.coordinates[last]
    return lines.coordinates, ends
