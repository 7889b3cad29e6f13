"""Gives a compiled layer the sides of its blocks: how many tiles wide is what is painted at once. PURE."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..drawing import building
from ..drawing.building import AnyScene
from ..reading.compiling import CompiledLayer
from ..styling.style import padding
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
    kind = compiled.kind
    return building.build(kind, building.read_ground(kind, compiled.geometry), compiled.speeds.data, style)
