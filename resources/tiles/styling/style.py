"""A layer's style: what may stand in its JSON, and what that means at a zoom. PURE.

{"widths": {"8": 1, "13": 3, "16": 6}, "thresholds": [0.8, 0.5, 0.25],
 "colours": {"green": "#2da44e", "grey": "#8c939b80"}}              for lines
{"widths": {"4": 0.5}, "colours": {"fill": "#f4f1ea", "outline": "#b9b2a6"}}   for areas
Points have a style of their own: point_style.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, overload

from .. import grid
from ..errors import LayerError
from . import colours, point_style, rgba
from .point_style import PointStyle
from .rgba import RGBA

LINE_WIDTHS = ((5, 0.75), (9, 1.25), (12, 2.25), (15, 4.5), (18, 9.0))
OUTLINE_WIDTHS = ((3, 0.5), (8, 1.0))
AREA_COLOURS = {"fill": "#e9e4d8", "outline": "#b9b2a6"}
MAX_WIDTH = 64.0
MAX_SHARE = 100.0
STROKE_PADDING = 0.125
"""How far beyond its bounds a layer of lines or areas is seen, in tiles: half of the widest stroke."""


@dataclass(frozen=True, slots=True)
class Style:
    """How a layer is painted. `palette[i]` is the colour of index colour i + 1."""

    palette: tuple[RGBA, ...]
    widths: tuple[tuple[int, float], ...]
    thresholds: tuple[float, float, float] = colours.THRESHOLDS

    def width_at(self, zoom: int) -> float:
        """A stroke's width in pixels, interpolated between the zooms that the style names."""
        if zoom <= self.widths[0][0]:
            return self.widths[0][1]
        for (low, narrow), (high, wide) in pairwise(self.widths):
            if zoom <= high:
                return narrow + (wide - narrow) * (zoom - low) / (high - low)
        return self.widths[-1][1]

    @property
    def strokes_areas(self) -> bool:
        """Whether the outline of areas can be seen at all."""
        return self.palette[colours.OUTLINE - 1][3] > 0


@overload
def parse_style(kind: Literal["lines", "areas"], style: object) -> Style: ...
@overload
def parse_style(kind: Literal["points"], style: object) -> PointStyle: ...
@overload
def parse_style(kind: str, style: object) -> Style | PointStyle: ...
def parse_style(kind: str, style: object) -> Style | PointStyle:
    """The style of a layer of that kind. Raises LayerError naming what is wrong."""
    if not isinstance(style, Mapping):
        raise LayerError("A style is a JSON object.")
    if kind == "points":
        return point_style.parse(style)
    known = {"widths", "colours"} | ({"thresholds"} if kind == "lines" else set())
    if unknown := sorted(set(style) - known):
        raise LayerError(f"A style of {kind} has no “{unknown[0]}”; it has {', '.join(sorted(known))}.")
    defaults = {each.name: each.colour for each in colours.TRAFFIC} if kind == "lines" else AREA_COLOURS
    return Style(
        palette=_palette(kind, rgba.read_colours(style.get("colours", {}), defaults)),
        widths=_widths(style.get("widths"), LINE_WIDTHS if kind == "lines" else OUTLINE_WIDTHS),
        thresholds=_thresholds(style.get("thresholds", colours.THRESHOLDS)),
    )


def check(kind: str, style: object) -> None:
    """Raises LayerError naming what is wrong. Looks at painted layers only: other servers' tiles have no style."""
    if kind != "upstream":
        parse_style(kind, style)


def legend(kind: str, style: object) -> list[dict[str, str]]:
    """The legend's entries, label and colour, in the order of reading; none for areas and other servers' tiles."""
    if kind == "upstream":
        return []
    parsed = parse_style(kind, style)
    if isinstance(parsed, PointStyle):
        return point_style.legend(parsed)
    if kind != "lines":
        return []
    return [
        {"name": each.name, "label": each.label, "colour": rgba.hexadecimal(parsed.palette[each.index - 1])}
        for each in colours.TRAFFIC
    ]


def padding(kind: str, style: object) -> float:
    """How far beyond its bounds a layer may be seen, in tiles."""
    if kind == "upstream":
        return 0.0
    parsed = parse_style(kind, style)
    reach_pixels = parsed.reach_pixels if isinstance(parsed, PointStyle) else 0.0
    return max(STROKE_PADDING, reach_pixels / 256)


def _palette(kind: str, named: Mapping[str, RGBA]) -> tuple[RGBA, ...]:
    if kind == "lines":
        return tuple(named[each.name] for each in sorted(colours.TRAFFIC, key=lambda each: each.index))
    return named["fill"], named["outline"]


def _widths(given: object, default: tuple[tuple[int, float], ...]) -> tuple[tuple[int, float], ...]:
    if given is None:
        return default
    if not isinstance(given, Mapping) or not given:
        raise LayerError("“widths” is a JSON object from zoom to pixels.")
    stops = []
    for zoom, width in given.items():
        if not re.fullmatch(r"0|[1-9][0-9]?", str(zoom)) or int(zoom) > grid.MAX_ZOOM:
            raise LayerError(f"“widths”: {zoom!r} is not a zoom from 0 to {grid.MAX_ZOOM}.")
        if type(width) not in (int, float) or not 0 < width <= MAX_WIDTH:
            raise LayerError(f"“widths”: the width at zoom {zoom} is above 0 and at most {MAX_WIDTH:.0f} pixels.")
        stops.append((int(zoom), float(width)))
    return tuple(sorted(stops))


def _thresholds(given: object) -> tuple[float, float, float]:
    if not isinstance(given, list | tuple) or len(given) != 3:
        raise LayerError("“thresholds” are three numbers: green, yellow and red from their share of free flow.")
    if not all(type(share) in (int, float) and 0 < share <= MAX_SHARE for share in given):
        raise LayerError(f"“thresholds” are three finite numbers above 0, at most {MAX_SHARE:.0f}.")
    green, yellow, red = map(float, given)
    if not green > yellow > red > 0:
        raise LayerError("“thresholds” fall: green above yellow above red above 0.")
    return green, yellow, red
