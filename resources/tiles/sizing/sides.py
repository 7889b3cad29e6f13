"""Gives a compiled layer the sides of its blocks: how many tiles wide is what is painted at once. PURE."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..drawing.painting import AnyScene
from ..drawing.points.scene import PointScene
from ..drawing.scene import Index, compose
from ..reading import geometry, points, speeds
from ..reading.compiling import CompiledLayer
from ..styling.point_style import PointStyle
from ..styling.style import padding, parse_style
from . import measuring
from .measuring import Clock


@dataclass(frozen=True, slots=True)
class Sizing:
    """What the sides are measured with. A bound of 0 stands for no blocks: nothing is measured."""

    style: Mapping[str, Any]
    min_zoom: int
    max_zoom: int
    bound_seconds: float

    def size(self, compiled: CompiledLayer, clock: Clock) -> CompiledLayer:
        """The layer with its sides. Raises LayerError for a style that is none of its kind."""
        if self.bound_seconds <= 0:
            return compiled
        sides = measuring.measure_sides(
            scene_of(compiled, self.style),
            measuring.Extent(compiled.bounds, padding(compiled.kind, self.style)),
            range(self.min_zoom, self.max_zoom + 1),
            self.bound_seconds,
            clock,
        )
        return replace(compiled, metatiles=sides)


def scene_of(compiled: CompiledLayer, style: Mapping[str, Any]) -> AnyScene:
    """What painters make of the layer. Raises LayerError for a style that is none of its kind."""
    parsed = parse_style(compiled.kind, style)
    if compiled.kind == "points":
        assert isinstance(parsed, PointStyle)
        return PointScene.of(points.read_points(compiled.geometry), parsed)
    assert not isinstance(parsed, PointStyle)
    known = speeds.read_speeds(compiled.speeds.data) if compiled.kind == "lines" else None
    return compose(compiled.kind, Index.build(geometry.read_geometry(compiled.geometry)), known, parsed)
