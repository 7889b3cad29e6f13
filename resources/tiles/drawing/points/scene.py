"""What a painter holds of a layer of points: the points, a style, and what is known of each zoom. PURE."""

from dataclasses import dataclass, field
from functools import partial
from typing import Self

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ...arrays import Floats
from ...last_used import LastUsed
from ...reading.points import GLOBE, Points
from ...styling.point_style import PointStyle
from ...window import Window
from . import clusters, discs, dots, heat
from .clusters import Clusters
from .heat import Peak

ZOOMS_KEPT = 8


@dataclass(frozen=True, slots=True, eq=False)
class PointScene:
    """All that painting a tile of points needs."""

    points: Points
    style: PointStyle
    whole_weights: NDArray[np.int64]
    _clusters: LastUsed[Clusters] = field(default_factory=LastUsed)
    _peaks: LastUsed[Peak] = field(default_factory=LastUsed)

    @classmethod
    def of(cls, points: Points, style: PointStyle) -> Self:
        return cls(points, style, heat.whole_weights(points.weights))

    def positions(self) -> Floats:
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
        make = partial(clusters.cluster, self.points, zoom, self.style.radius)
        return self._clusters.get(zoom, make, most=ZOOMS_KEPT)

    def peak_of(self, zoom: int) -> Peak:
        make = partial(heat.find_peak, self.points, self.whole_weights, zoom, self.style.radius)
        return self._peaks.get(zoom, make, most=ZOOMS_KEPT)
