"""The style of a layer of points: what may stand in its JSON, and what that means. PURE.

{"mode": "clusters", "radius": 48, "colours": {"few": "#3f8fd2", "text": "#ffffff"}}
{"mode": "heat", "radius": 30, "weight": "mag", "colours": {"low": "#5b4fb5", "highest": "#ffd75e"}}
{"mode": "dots", "radius": [3, 12], "weight": "mag", "colours": {"fill": "#d1495bcc"}}
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, TypeAlias

from ..errors import LayerError
from . import rgba
from .rgba import RGBA

Mode: TypeAlias = Literal["clusters", "heat", "dots"]
Radii: TypeAlias = tuple[float, float]

WEIGHT = "weight"
"""The property that is a point's weight where a style names none."""

MAX_WEIGHT_LENGTH = 100
OUTLINE_PIXELS: Mapping[str, float] = {"clusters": 1.5, "dots": 1.0}

FEW, SOME, MANY, POINT, RIM, TEXT = 1, 2, 3, 4, 5, 6
"""Index colours of clusters. 0 is transparent."""

SOME_FROM, MANY_FROM = 10, 100
"""How many points make a cluster of the next colour."""

FILL, OUTLINE = 1, 2
"""Index colours of dots."""

COLOURS: Mapping[Mode, Mapping[str, str]] = {
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
_RADII: Mapping[Mode, tuple[Radii, float, float]] = {
    "clusters": ((48.0, 48.0), 20.0, 200.0),
    "heat": ((30.0, 30.0), 4.0, 120.0),
    "dots": ((4.0, 4.0), 1.0, 64.0),
}
"""By mode: the radius as it comes, the smallest and the largest, in pixels at scale 1."""

_STEPS = 255
_FAINT = 27
"""The ramp's colours start here: a Gaussian is cut off at 3 σ, where it has a hundredth of its height."""

_ALPHAS = (0, 180, 220, 235)


@dataclass(frozen=True, slots=True)
class PointStyle:
    """How points are painted. `palette[i]` is the colour of index colour i + 1. Radii in pixels at scale 1.

    Dots of the least weight have the first radius, those of the most the second.
    """

    mode: Mode
    radii: Radii
    palette: tuple[RGBA, ...]
    weight: str | None

    @property
    def radius(self) -> float:
        return self.radii[1]

    @property
    def reach_pixels(self) -> float:
        """How far from its place a point may be seen, in pixels at scale 1."""
        if self.mode == "heat":
            return self.radius + 1
        return (
            (cluster_radius(self.radius, 10**9) if self.mode == "clusters" else self.radius)
            + OUTLINE_PIXELS[self.mode]
            + 1
        )


def cluster_radius(radius: float, count: int) -> float:
    """A disc's radius in pixels: it grows with the number of digits, within half of what is gathered."""
    return radius * min(0.23 + 0.065 * math.log10(max(count, 2)), 0.5)


def parse(style: Mapping[str, object]) -> PointStyle:
    """The style of a layer of points. Raises LayerError naming what is wrong."""
    mode = _mode(style.get("mode", "clusters"))
    if unknown := sorted(set(style) - {"mode", "radius", "weight", "colours"}):
        raise LayerError(f"A style of points has no “{unknown[0]}”; it has colours, mode, radius, weight.")
    named = rgba.read_colours(style.get("colours", {}), COLOURS[mode])
    palette = _ramp(tuple(named.values())) if mode == "heat" else tuple(named.values())
    return PointStyle(mode, _radii(mode, style.get("radius")), palette, _weight(style.get("weight")))


def weight_of(style: object) -> str | None:
    """The property that a style weighs points by; None where it names none, or nothing that could be one."""
    weight = style.get("weight") if isinstance(style, Mapping) else None
    return weight if isinstance(weight, str) else None


def legend(parsed: PointStyle) -> list[dict[str, str]]:
    """The legend's entries in the order of reading; `shape` is what the page draws them as."""
    if parsed.mode == "heat":
        labels = {name: name.capitalize() for name in COLOURS["heat"]}
        colours = [_opaque(parsed.palette[place]) for place in _stops(len(labels))]
        return _entries("ramp", labels, colours)
    if parsed.mode == "dots":
        return _entries("disc", {"fill": "Point"}, [rgba.hexadecimal(parsed.palette[FILL - 1])])
    labels = {
        "point": "1",
        "few": f"2–{SOME_FROM - 1}",
        "some": f"{SOME_FROM}–{MANY_FROM - 1}",
        "many": f"{MANY_FROM} and more",
    }
    colours = [rgba.hexadecimal(parsed.palette[index - 1]) for index in (POINT, FEW, SOME, MANY)]
    point, *groups = _entries("disc", labels, colours)
    return [{**point, "shape": "dot"}, *groups]  # it has the colour of few, and is smaller


def _entries(shape: str, labels: Mapping[str, str], colours: list[str]) -> list[dict[str, str]]:
    return [
        {"name": name, "label": label, "colour": colour, "shape": shape}
        for (name, label), colour in zip(labels.items(), colours, strict=True)
    ]


def _mode(given: object) -> Mode:
    for mode in COLOURS:
        if given == mode:
            return mode
    raise LayerError(f"“mode” is one of {', '.join(COLOURS)}.")


def _radii(mode: Mode, given: object) -> Radii:
    default, least, most = _RADII[mode]
    if given is None:
        return default
    pair: Sequence[Any] = [given, given]
    if mode == "dots" and isinstance(given, list | tuple) and len(given) == 2:
        pair = given
    if not all(type(radius) in (int, float) and least <= radius <= most for radius in pair) or pair[0] > pair[1]:
        either = ", or two of them: that of the least weight and that of the most" if mode == "dots" else ""
        raise LayerError(f"“radius” of {mode} is {least:.0f} to {most:.0f} pixels{either}.")
    return float(pair[0]), float(pair[1])


def _weight(given: object) -> str | None:
    if given is None:
        return None
    if not isinstance(given, str) or not given.strip() or len(given) > MAX_WEIGHT_LENGTH:
        raise LayerError(f"“weight” is the name of a property, 1 to {MAX_WEIGHT_LENGTH} characters.")
    return given


def _stops(count: int) -> list[int]:
    """The places in the ramp where its named colours stand."""
    return [_FAINT + (_STEPS - 1 - _FAINT) * number // (count - 1) for number in range(count)]


def _ramp(named: tuple[RGBA, ...]) -> tuple[RGBA, ...]:
    """The 255 colours from nothing to the highest; each named colour's own alpha weakens the ramp's."""
    steps: list[RGBA] = [(0, 0, 0, 0)] * _FAINT
    coloured = [(*colour[:3], colour[3] * alpha // 255) for colour, alpha in zip(named, _ALPHAS, strict=True)]
    for (start, first), (end, second) in pairwise(zip(_stops(len(named)), coloured, strict=True)):
        steps += [_between(first, second, step - start, end - start) for step in range(start, end)]
    return (*steps, coloured[-1])


def _between(first: RGBA, second: RGBA, step: int, steps: int) -> RGBA:
    red, green, blue, alpha = (a + (b - a) * step // steps for a, b in zip(first, second, strict=True))
    return red, green, blue, alpha


def _opaque(colour: RGBA) -> str:
    return rgba.hexadecimal((*colour[:3], 255))
