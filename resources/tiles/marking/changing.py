"""The tiles that look different with other speeds. PURE."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..reading import geometry
from ..reading.speeds import Speeds
from ..styling import colours
from ..styling.style import parse_style
from ..touched import Touched
from . import lines, seeing

MOST_CHANGED = 20_000
"""Features of other classes. With more, nearly every tile is touched: all of the layer counts as changed."""

MOST_LOOKED_AT = 50
"""Groups of them: with more, something of them can be seen nearly wherever there are some."""


@dataclass(frozen=True, slots=True)
class Look:
    """How lines are drawn: their style, from which zoom to which."""

    style: Mapping[str, Any]
    min_zoom: int
    max_zoom: int
    closely: bool = True
    """Whether it is looked at what can be seen of few changed lines; else whatever they come upon is touched."""


def touched_by_speeds(compiled_geometry: bytes, before: Speeds | None, after: Speeds, look: Look) -> Touched | None:
    """The tiles that new speeds touch; None for all. Without speeds before, all lines were grey."""
    style = parse_style("lines", look.style)
    new = colours.classify(after.speed_kmh, after.free_flow_kmh, style.thresholds)
    old = np.full_like(new, colours.GREY)
    if before is not None:
        old = colours.classify(before.speed_kmh, before.free_flow_kmh, style.thresholds)
    changed = old != new
    if np.count_nonzero(changed) > MOST_CHANGED:
        return None
    if not changed.any():
        return Touched.nothing(min(look.max_zoom, lines.DEEPEST))
    shapes = geometry.read_geometry(compiled_geometry)
    touched = lines.touched_by(shapes, changed, style, lines.Zooms(look.min_zoom, look.max_zoom))
    if not look.closely or np.count_nonzero(changed[shapes.features]) > MOST_LOOKED_AT:
        return touched
    return seeing.seen(shapes, old, new, style, touched)
