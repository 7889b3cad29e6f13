"""A layer's style: what may stand in its JSON, and what that means at a zoom. PURE.

{"widths": {"8": 1, "13": 3, "16": 6}, "thresholds": [0.8, 0.5, 0.25],
 "colours": {"green": "#2da44e", "grey": "#8c939b80"}}              for lines
{"widths": {"4": 0.5}, "colours": {"fill": "#f4f1ea", "outline": "#b9b2a6"}}   for areas
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from . import colours, grid
from .errors import LayerError

RGBA: TypeAlias = tuple[int, int, int, int]

LINE_WIDTHS = ((5, 0.75), (9, 1.25), (12, 2.25), (15, 4.5), (18, 9.0))
OUTLINE_WIDTHS = ((3, 0.5), (8, 1.0))
AREA_COLOURS = {"fill": "#e9e4d8", "outline": "#b9b2a6"}
MAX_WIDTH = 64.0
MAX_SHARE = 100.0

_COLOUR = re.compile(r"#[0-9a-fA-F]{6}([0-9a-fA-F]{2})?")


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


def parse_style(kind: str, style: object) -> Style:
    """The style of a layer of that kind. Raises LayerError naming what is wrong."""
    if not isinstance(style, Mapping):
        raise LayerError("A style is a JSON object.")
    known = {"widths", "colours"} | ({"thresholds"} if kind == "lines" else set())
    if unknown := sorted(set(style) - known):
        raise LayerError(f"A style of {kind} has no “{unknown[0]}”; it has {', '.join(sorted(known))}.")
    defaults = {each.name: each.colour for each in colours.TRAFFIC} if kind == "lines" else AREA_COLOURS
    return Style(
        palette=_palette(kind, _colours(style.get("colours", {}), defaults)),
        widths=_widths(style.get("widths"), LINE_WIDTHS if kind == "lines" else OUTLINE_WIDTHS),
        thresholds=_thresholds(style.get("thresholds", colours.THRESHOLDS)),
    )


def legend(kind: str, style: object) -> list[dict[str, str]]:
    """The legend's entries, label and colour, in the order of reading; none for areas."""
    parsed = parse_style(kind, style)
    if kind != "lines":
        return []
    return [
        {"name": each.name, "label": each.label, "colour": _hexadecimal(parsed.palette[each.index - 1])}
        for each in colours.TRAFFIC
    ]


def _palette(kind: str, named: Mapping[str, RGBA]) -> tuple[RGBA, ...]:
    if kind == "lines":
        return tuple(named[each.name] for each in sorted(colours.TRAFFIC, key=lambda each: each.index))
    return named["fill"], named["outline"]


def _colours(given: object, defaults: Mapping[str, str]) -> dict[str, RGBA]:
    if not isinstance(given, Mapping):
        raise LayerError("“colours” is a JSON object.")
    for name, value in given.items():
        if name not in defaults:
            raise LayerError(f"There is no colour “{name}” here; there are {', '.join(defaults)}.")
        if not isinstance(value, str) or not _COLOUR.fullmatch(value):
            raise LayerError(f"Colour “{name}” is written #rrggbb or #rrggbbaa.")
    return {name: _rgba(str(given.get(name, default))) for name, default in defaults.items()}


def _rgba(colour: str) -> RGBA:
    red, green, blue, alpha = bytes.fromhex(colour[1:].ljust(8, "f"))
    return red, green, blue, alpha


def _hexadecimal(colour: RGBA) -> str:
    return "#" + bytes(colour if colour[3] < 255 else colour[:3]).hex()


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
