"""Styles of layers: the permitted JSON, its meaning at a zoom, colours, legend, classes of traffic. PURE.

{"widths": {"8": 1, "13": 3, "16": 6}, "thresholds": [0.8, 0.5, 0.25],
 "colours": {"green": "#2da44e", "grey": "#8c939b80"}}              for lines
{"widths": {"4": 0.5}, "colours": {"fill": "#f4f1ea", "outline": "#b9b2a6"}}   for areas
{"mode": "clusters", "radius": 48, "colours": {"few": "#3f8fd2", "text": "#ffffff"}}   for points
{"mode": "heat", "radius": 30, "weight": "mag", "colours": {"low": "#5b4fb5", "highest": "#ffd75e"}}
{"mode": "dots", "radius": [3, 12], "weight": "mag", "colours": {"fill": "#d1495bcc"}}
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, TypeAlias, overload

from . import grid
from .errors import LayerError

RGBA: TypeAlias = tuple[int, int, int, int]

_COLOUR_PATTERN = re.compile(r"#[0-9a-fA-F]{6}([0-9a-fA-F]{2})?")


def read_colours(given: object, defaults: Mapping[str, str]) -> dict[str, RGBA]:
    """Returns the colours of a style by name, with defaults for missing ones. Raises LayerError."""
    if not isinstance(given, Mapping):
        raise LayerError("“colours” is a JSON object.")
    for name, value in given.items():
        if name not in defaults:
            raise LayerError(f"There is no colour “{name}” here; there are {', '.join(defaults)}.")
        if not isinstance(value, str) or not _COLOUR_PATTERN.fullmatch(value):
            raise LayerError(f"Colour “{name}” is written #rrggbb or #rrggbbaa.")
    return {name: parse_colour(str(given.get(name, default))) for name, default in defaults.items()}


def parse_colour(colour: str) -> RGBA:
    red, green, blue, alpha = bytes.fromhex(colour[1:].ljust(8, "f"))
    return red, green, blue, alpha


def format_colour(colour: RGBA) -> str:
    """Returns the colour as written in styles; without a full alpha."""
    return "#" + bytes(colour if colour[3] < 255 else colour[:3]).hex()


GREY, GREEN, YELLOW, RED, DARK_RED = 1, 2, 3, 4, 5
"""Index colours in the order of drawing: the worst is on top. 0 is transparent."""

DOT_FILL, DOT_OUTLINE = 1, 2
"""Index colours of areas and of dots."""

TRAFFIC_THRESHOLDS = (0.8, 0.5, 0.25)
"""At or above the first share of the free-flow speed traffic is green, then yellow, then red."""


@dataclass(frozen=True, slots=True)
class TrafficClass:
    """One class of the classic traffic map."""

    index: int
    name: str
    label: str
    colour: str


TRAFFIC_CLASSES = (
    TrafficClass(GREEN, "green", "Free flow", "#2da44e"),
    TrafficClass(YELLOW, "yellow", "Slow", "#f2b01e"),
    TrafficClass(RED, "red", "Heavy", "#e0352b"),
    TrafficClass(DARK_RED, "dark_red", "Standing", "#8b1015"),
    TrafficClass(GREY, "grey", "No data", "#8c939b"),
)


PointMode: TypeAlias = Literal["clusters", "heat", "dots"]
PointRadii: TypeAlias = tuple[float, float]

WEIGHT_PROPERTY = "weight"
"""The property that holds a point's weight if the style names none."""

MAX_WEIGHT_LENGTH = 100
POINT_OUTLINE_PIXELS: Mapping[PointMode, float] = {"clusters": 1.5, "heat": 0.0, "dots": 1.0}

CLUSTER_FEW, CLUSTER_SOME, CLUSTER_MANY, CLUSTER_POINT, CLUSTER_RIM, CLUSTER_TEXT = 1, 2, 3, 4, 5, 6
"""Index colours of clusters. 0 is transparent."""

CLUSTER_SOME_FROM, CLUSTER_MANY_FROM = 10, 100
"""Numbers of points from which a cluster has the next colour."""

POINT_COLOURS: Mapping[PointMode, Mapping[str, str]] = {
    "clusters": {
        "few": "#4a90c4",
        "some": "#7d5fb2",
        "many": "#b23a6f",
        "point": "#4a90c4",
        "outline": "#ffffff",
        "text": "#ffffff",
    },
    "heat": {"low": "#7069d8", "medium": "#b9489c", "high": "#ee7a4b", "highest": "#ffd75e"},
    "dots": {"fill": "#c8445fd9", "outline": "#ffffffcc"},
}
_RADII_BY_MODE: Mapping[PointMode, tuple[PointRadii, float, float]] = {
    "clusters": ((48.0, 48.0), 20.0, 200.0),
    "heat": ((30.0, 30.0), 4.0, 120.0),
    "dots": ((4.0, 4.0), 1.0, 64.0),
}
"""By mode: the default radius, the smallest and the largest, in pixels at scale 1."""

_RAMP_STEPS = 255
_RAMP_START = 27
"""The ramp's colours start here: a Gaussian is cut off at 3 σ, where it has a hundredth of its height."""

_RAMP_ALPHAS = (0, 180, 220, 235)


@dataclass(frozen=True, slots=True)
class PointStyle:
    """The look of points. `palette[i]` is the colour of index colour i + 1. Radii in pixels at scale 1.

    Dots of the least weight have the first radius, dots of the greatest the second.
    """

    mode: PointMode
    radii: PointRadii
    palette: tuple[RGBA, ...]
    weight: str | None

    @property
    def radius(self) -> float:
        return self.radii[1]

    @property
    def reach_pixels(self) -> float:
        """Distance from its place at which a point may be seen, in pixels at scale 1."""
        largest = cluster_radius(self.radius, 10**9) if self.mode == "clusters" else self.radius
        return largest + POINT_OUTLINE_PIXELS[self.mode] + 1


def cluster_radius(radius: float, count: int) -> float:
    """Returns a disc's radius in pixels: it grows with the number of digits, up to half the cluster radius."""
    return radius * min(0.23 + 0.065 * math.log10(max(count, 2)), 0.5)


def parse_point_style(style: Mapping[str, object]) -> PointStyle:
    """Parses the style of a layer of points. Raises LayerError naming the mistake."""
    mode = _check_mode(style.get("mode", "clusters"))
    if unknown := sorted(set(style) - {"mode", "radius", "weight", "colours"}):
        raise LayerError(f"A style of points has no “{unknown[0]}”; it has colours, mode, radius, weight.")
    named = read_colours(style.get("colours", {}), POINT_COLOURS[mode])
    palette = _build_ramp(tuple(named.values())) if mode == "heat" else tuple(named.values())
    return PointStyle(mode, _check_radii(mode, style.get("radius")), palette, _check_weight(style.get("weight")))


def style_weight(style: object) -> str | None:
    """Returns the property by which a style weighs points; None if it names none or no valid one."""
    weight = style.get("weight") if isinstance(style, Mapping) else None
    return weight if isinstance(weight, str) else None


def point_legend(parsed: PointStyle) -> list[dict[str, str]]:
    """Returns the legend's entries in the order of reading; `shape` is their shape on the page."""
    if parsed.mode == "heat":
        labels = {name: name.capitalize() for name in POINT_COLOURS["heat"]}
        colours = [format_colour((*parsed.palette[stop][:3], 255)) for stop in _ramp_stops(len(labels))]
        return _legend_entries("ramp", labels, colours)
    if parsed.mode == "dots":
        return _legend_entries("disc", {"fill": "Point"}, [format_colour(parsed.palette[DOT_FILL - 1])])
    labels = {
        "point": "1",
        "few": f"2–{CLUSTER_SOME_FROM - 1}",
        "some": f"{CLUSTER_SOME_FROM}–{CLUSTER_MANY_FROM - 1}",
        "many": f"{CLUSTER_MANY_FROM} and more",
    }
    colours = [
        format_colour(parsed.palette[index - 1]) for index in (CLUSTER_POINT, CLUSTER_FEW, CLUSTER_SOME, CLUSTER_MANY)
    ]
    point, *groups = _legend_entries("disc", labels, colours)
    return [{**point, "shape": "dot"}, *groups]  # it has the colour of few, and is smaller


def _legend_entries(shape: str, labels: Mapping[str, str], colours: list[str]) -> list[dict[str, str]]:
    return [
        {"name": name, "label": label, "colour": colour, "shape": shape}
        for (name, label), colour in zip(labels.items(), colours, strict=True)
    ]


def _check_mode(given: object) -> PointMode:
    for mode in POINT_COLOURS:
        if given == mode:
            return mode
    raise LayerError(f"“mode” is one of {', '.join(POINT_COLOURS)}.")


def _check_radii(mode: PointMode, given: object) -> PointRadii:
    default, least, most = _RADII_BY_MODE[mode]
    if given is None:
        return default
    pair: Sequence[Any] = [given, given]
    if mode == "dots" and isinstance(given, list | tuple) and len(given) == 2:
        pair = given
    if not all(type(radius) in (int, float) and least <= radius <= most for radius in pair) or pair[0] > pair[1]:
        either = ", or two of them: that of the least weight and that of the most" if mode == "dots" else ""
        raise LayerError(f"“radius” of {mode} is {least:.0f} to {most:.0f} pixels{either}.")
    return float(pair[0]), float(pair[1])


def _check_weight(given: object) -> str | None:
    if given is None:
        return None
    if not isinstance(given, str) or not given.strip() or len(given) > MAX_WEIGHT_LENGTH:
        raise LayerError(f"“weight” is the name of a property, 1 to {MAX_WEIGHT_LENGTH} characters.")
    return given


def _ramp_stops(count: int) -> list[int]:
    return [_RAMP_START + (_RAMP_STEPS - 1 - _RAMP_START) * number // (count - 1) for number in range(count)]


def _build_ramp(named: tuple[RGBA, ...]) -> tuple[RGBA, ...]:
    """Returns the 255 colours from nothing to the highest; each named colour's own alpha weakens the ramp's."""
    steps: list[RGBA] = [(0, 0, 0, 0)] * _RAMP_START
    coloured = [(*colour[:3], colour[3] * alpha // 255) for colour, alpha in zip(named, _RAMP_ALPHAS, strict=True)]
    for (start, first), (end, second) in pairwise(zip(_ramp_stops(len(named)), coloured, strict=True)):
        steps += [_blend_step(first, second, step - start, end - start) for step in range(start, end)]
    return (*steps, coloured[-1])


def _blend_step(first: RGBA, second: RGBA, step: int, steps: int) -> RGBA:
    red, green, blue, alpha = (a + (b - a) * step // steps for a, b in zip(first, second, strict=True))
    return red, green, blue, alpha


LINE_WIDTHS = ((5, 0.75), (9, 1.25), (12, 2.25), (15, 4.5), (18, 9.0))
OUTLINE_WIDTHS = ((3, 0.5), (8, 1.0))
AREA_COLOURS = {"fill": "#e9e4d8", "outline": "#b9b2a6"}
MAX_WIDTH_PIXELS = 64.0
MAX_THRESHOLD = 100.0
STROKE_PADDING_TILES = 0.125
"""Distance beyond its bounds up to which lines or areas are seen, in tiles: half of the widest stroke."""


@dataclass(frozen=True, slots=True)
class Style:
    """The look of lines or areas. `palette[i]` is the colour of index colour i + 1."""

    palette: tuple[RGBA, ...]
    widths: tuple[tuple[int, float], ...]
    thresholds: tuple[float, float, float] = TRAFFIC_THRESHOLDS

    def width_at(self, zoom: int) -> float:
        """Returns a stroke's width in pixels, interpolated between the zooms that the style names."""
        if zoom <= self.widths[0][0]:
            return self.widths[0][1]
        for (low, narrow), (high, wide) in pairwise(self.widths):
            if zoom <= high:
                return narrow + (wide - narrow) * (zoom - low) / (high - low)
        return self.widths[-1][1]

    @property
    def strokes_areas(self) -> bool:
        """True if the outline of areas can be seen."""
        return self.palette[DOT_OUTLINE - 1][3] > 0


@overload
def parse_style(kind: Literal["lines", "areas"], style: object) -> Style: ...
@overload
def parse_style(kind: Literal["points"], style: object) -> PointStyle: ...
@overload
def parse_style(kind: str, style: object) -> Style | PointStyle: ...
def parse_style(kind: str, style: object) -> Style | PointStyle:
    """Parses the style of a layer of that kind. Raises LayerError naming the mistake."""
    if not isinstance(style, Mapping):
        raise LayerError("A style is a JSON object.")
    if kind == "points":
        return parse_point_style(style)
    known = {"widths", "colours"} | ({"thresholds"} if kind == "lines" else set())
    if unknown := sorted(set(style) - known):
        raise LayerError(f"A style of {kind} has no “{unknown[0]}”; it has {', '.join(sorted(known))}.")
    defaults = {each.name: each.colour for each in TRAFFIC_CLASSES} if kind == "lines" else AREA_COLOURS
    colours = read_colours(style.get("colours", {}), defaults)
    by_index = sorted(TRAFFIC_CLASSES, key=lambda each: each.index)
    return Style(
        palette=tuple(colours[each.name] for each in by_index) if kind == "lines" else tuple(colours.values()),
        widths=_check_widths(style.get("widths"), LINE_WIDTHS if kind == "lines" else OUTLINE_WIDTHS),
        thresholds=_check_thresholds(style.get("thresholds", TRAFFIC_THRESHOLDS)),
    )


def check_style(kind: str, style: object) -> None:
    """Raises LayerError naming the mistake. Checks painted layers only: other servers' tiles have no style."""
    if kind != "upstream":
        parse_style(kind, style)


def layer_legend(kind: str, style: object) -> list[dict[str, str]]:
    """Returns the legend's entries in the order of reading; none for areas and other servers' tiles."""
    if kind == "upstream":
        return []
    parsed = parse_style(kind, style)
    if isinstance(parsed, PointStyle):
        return point_legend(parsed)
    if kind != "lines":
        return []
    return [
        {"name": each.name, "label": each.label, "colour": format_colour(parsed.palette[each.index - 1])}
        for each in TRAFFIC_CLASSES
    ]


def style_padding(kind: str, style: object) -> float:
    """Returns the distance beyond its bounds up to which a layer may be seen, in tiles."""
    if kind == "upstream":
        return 0.0
    parsed = parse_style(kind, style)
    reach_pixels = parsed.reach_pixels if isinstance(parsed, PointStyle) else 0.0
    return max(STROKE_PADDING_TILES, reach_pixels / 256)


def _check_widths(given: object, default: tuple[tuple[int, float], ...]) -> tuple[tuple[int, float], ...]:
    if given is None:
        return default
    if not isinstance(given, Mapping) or not given:
        raise LayerError("“widths” is a JSON object from zoom to pixels.")
    stops = []
    for zoom, width in given.items():
        if not re.fullmatch(r"0|[1-9][0-9]?", str(zoom)) or int(zoom) > grid.MAX_ZOOM:
            raise LayerError(f"“widths”: {zoom!r} is not a zoom from 0 to {grid.MAX_ZOOM}.")
        if type(width) not in (int, float) or not 0 < width <= MAX_WIDTH_PIXELS:
            raise LayerError(
                f"“widths”: the width at zoom {zoom} is above 0 and at most {MAX_WIDTH_PIXELS:.0f} pixels."
            )
        stops.append((int(zoom), float(width)))
    return tuple(sorted(stops))


def _check_thresholds(given: object) -> tuple[float, float, float]:
    if not isinstance(given, list | tuple) or len(given) != 3:
        raise LayerError("“thresholds” are three numbers: green, yellow and red from their share of free flow.")
    if not all(type(share) in (int, float) and 0 < share <= MAX_THRESHOLD for share in given):
        raise LayerError(f"“thresholds” are three finite numbers above 0, at most {MAX_THRESHOLD:.0f}.")
    green, yellow, red = map(float, given)
    if not green > yellow > red > 0:
        raise LayerError("“thresholds” fall: green above yellow above red above 0.")
    return green, yellow, red
