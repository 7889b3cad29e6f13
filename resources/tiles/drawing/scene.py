"""What a painter holds of a layer: geometry with its spatial index, a class per segment, a style. PURE."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import shapely
from numpy.typing import NDArray

from ..arrays import Floats, Indexes
from ..reading import geojson
from ..reading.geometry import Geometry
from ..reading.speeds import Speeds
from ..styling import colours
from ..styling.style import Style
from .simplifying import Levels


@dataclass(frozen=True, slots=True, eq=False)
class Index:
    """A geometry with its spatial index and its levels; built once per geometry and process."""

    geometry: Geometry
    levels: Levels
    tree: shapely.STRtree | None
    """None where all groups are near anyway."""

    west: float
    east: float
    """From where to where geometry reaches in unit mercator; `east` is above 1 when it crosses the antimeridian."""

    @classmethod
    def build(cls, geometry: Geometry) -> Self:
        lows, highs = group_boxes(geometry)
        boxes = shapely.box(lows[:, 0], lows[:, 1], highs[:, 0], highs[:, 1])
        return cls(
            geometry, Levels(geometry), shapely.STRtree(boxes), float(lows[:, 0].min()), float(highs[:, 0].max())
        )

    @classmethod
    def of_near(cls, geometry: Geometry) -> Self:
        """An index that takes no time to build, and finds all groups wherever it is asked."""
        west, east = geometry.coordinates[:, 0].min(), geometry.coordinates[:, 0].max()
        return cls(geometry, Levels(geometry), None, float(west), float(east))

    def groups_within(self, u0: float, v0: float, u1: float, v1: float) -> Indexes:
        """The groups whose boxes meet a box in unit mercator, in the order of the data."""
        if self.tree is None:
            return np.arange(len(self.geometry.features))
        found: Indexes = np.sort(self.tree.query(shapely.box(u0, v0, u1, v1)))
        return found


def group_boxes(geometry: Geometry) -> tuple[Floats, Floats]:
    """The corners (u0, v0) and (u1, v1) of each group's box."""
    first_rows = geometry.offsets[geometry.groups[:-1]]
    lows: Floats = np.minimum.reduceat(geometry.coordinates, first_rows, axis=0)
    highs: Floats = np.maximum.reduceat(geometry.coordinates, first_rows, axis=0)
    return lows, highs


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """All that painting a tile needs. `classes` has an index colour per feature."""

    kind: geojson.Kind
    index: Index
    classes: NDArray[np.uint8]
    style: Style

    def positions(self) -> Floats:
        """All that it is made of, as rows of unit mercator."""
        return self.index.geometry.coordinates


def compose(kind: geojson.Kind, index: Index, speeds: Speeds | None, style: Style) -> Scene:
    """A scene of these parts. Without speeds every line is grey."""
    count = int(index.geometry.features.max()) + 1
    if kind == "areas":
        classes = np.full(count, colours.FILL, np.uint8)
    elif speeds is None:
        classes = np.full(count, colours.GREY, np.uint8)
    else:
        classes = colours.classify(speeds.speed_kmh, speeds.free_flow_kmh, style.thresholds)
    return Scene(kind, index, classes, style)
