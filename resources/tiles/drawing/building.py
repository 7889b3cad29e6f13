"""Builds the scene of a layer, whatever its kind, from the layer's files. PURE; does not find or read them."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from ..reading import geojson, geometry, points, speeds
from ..styling.point_style import PointStyle
from ..styling.style import parse_style
from .points.scene import PointScene
from .scene import Index, Scene, compose

AnyScene: TypeAlias = Scene | PointScene

Ground: TypeAlias = Index | points.Points
"""What scenes of all speeds and styles of one geometry share."""


def read_ground(kind: geojson.Kind, compiled_geometry: bytes) -> Ground:
    if kind == "points":
        return points.read_points(compiled_geometry)
    return Index.build(geometry.read_geometry(compiled_geometry))


def build(kind: geojson.Kind, ground: Ground, compiled_speeds: bytes | None, style: Mapping[str, Any]) -> AnyScene:
    """The scene; only lines have speeds. Raises LayerError for a style that is none of its kind."""
    parsed = parse_style(kind, style)
    if isinstance(ground, points.Points):
        assert isinstance(parsed, PointStyle)
        return PointScene.of(ground, parsed)
    assert not isinstance(parsed, PointStyle)
    known = speeds.read_speeds(compiled_speeds) if compiled_speeds is not None and kind == "lines" else None
    return compose(kind, ground, known, parsed)
