"""What a painter holds of a layer of points: the points, a style, and what is known of each zoom. PURE."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ...reading.points import GLOBE, Points
from ...styling.point_style import PointStyle
from ...window import Window
from . import clusters, discs, dots, heat
from .clusters import Clusters
from .heat import Peak

ZOOMS_KEPT = 8

Known = TypeVar("Known")


@dataclass(slots=True)
class Zooms(Generic[Known]):
    """What was computed for whole zooms, those used last. Safe to share between threads."""

    _known: OrderedDict[int, Known] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def get(self, zoom: int, make: Callable[[], Known]) -> Known:
        with self._lock:
            if zoom not in self._known:
                self._known[zoom] = make()
            self._known.move_to_end(zoom)
            while len(self._known) > ZOOMS_KEPT:
                self._known.popitem(last=False)
            return self._known[zoom]


@dataclass(frozen=True, slots=True, eq=False)
class PointScene:
    """All that painting a tile of points needs."""

    points: Points
    style: PointStyle
    whole_weights: NDArray[np.int64]
    _clusters: Zooms[Clusters] = field(default_factory=Zooms)
    _peaks: Zooms[Peak] = field(default_factory=Zooms)

    @classmethod
    def of(cls, points: Points, style: PointStyle) -> Self:
        return cls(points, style, heat.whole_weights(points.weights))

    def positions(self) -> NDArray[np.float64]:
        """The points as rows of unit mercator."""
        return np.column_stack((self.points.x, self.points.y)) / float(GLOBE)

    def draw(self, window: Window, zoom: int, scale: int) -> Image.Image | None:
        """The index colours of a window; None when no point is near."""
        match self.style.mode:
            case "clusters":
                return discs.draw(self.clusters_of(zoom), self.style, window, scale)
            case "heat":
                return heat.draw(
                    self.points, self.whole_weights, self.peak_of(zoom), self.style, window=window, scale=scale
                )
            case "dots":
                return dots.draw(self.points, self.style, window, scale)

    def clusters_of(self, zoom: int) -> Clusters:
        return self._clusters.get(zoom, partial(clusters.cluster, self.points, zoom, self.style.radius))

    def peak_of(self, zoom: int) -> Peak:
        return self._peaks.get(zoom, partial(heat.find_peak, self.points, self.whole_weights, zoom, self.style.radius))
