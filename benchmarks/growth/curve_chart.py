"""Curves as an SVG picture, both axes logarithmic. PURE."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 420, 300
LEFT, RIGHT, TOP, BOTTOM = 62, 34, 34, 46
COLOURS = ("#1b5e9c", "#b3440e", "#2e7d32", "#6a3d9a")
LINE_HEIGHT = 15


@dataclass(frozen=True, slots=True)
class Curve:
    """Pairs of an amount and its cost, both above 0, in the order of the first."""

    name: str
    points: Sequence[tuple[float, float]]

    @property
    def exponent(self) -> float:
        """The power of the amount with which the cost grows between the last two points: 0 is flat, 1 in proportion."""
        (x, y), (next_x, next_y) = self.points[-2:]
        return log10(next_y / y) / log10(next_x / x)


@dataclass(frozen=True, slots=True)
class Chart:
    """`grows` names the growing amount; costs are in `unit`."""

    title: str
    grows: str
    unit: str
    curves: Sequence[Curve]


@dataclass(frozen=True, slots=True)
class Axis:
    """Powers of ten that hold all values, between two places of the picture."""

    least: int
    most: int
    begins: float
    ends: float

    @classmethod
    def holding(cls, values: Sequence[float], begins: float, ends: float) -> "Axis":
        least, most = floor(log10(min(values)) + 1e-9), ceil(log10(max(values)) - 1e-9)
        return cls(least, max(most, least + 1), begins, ends)

    def place(self, value: float) -> float:
        share = (log10(value) - self.least) / (self.most - self.least)
        return self.begins + share * (self.ends - self.begins)

    @property
    def ticks(self) -> list[float]:
        return [10.0**power for power in range(self.least, self.most + 1)]


def svg(charts: Sequence[Chart], caption: str) -> str:
    """A picture of all charts beside each other, the caption below."""
    width, height = WIDTH * len(charts), HEIGHT + 22
    parts = [part for place, chart in enumerate(charts) for part in _chart(chart, place * WIDTH)]
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="11">'
    )
    paper = f'<rect width="{width}" height="{height}" fill="#fff"/>'
    return "\n".join([opening, paper, *parts, _text(8, height - 8, caption, fill="#555"), "</svg>", ""])


def _chart(chart: Chart, offset: float) -> Iterator[str]:
    points = [point for curve in chart.curves for point in curve.points]
    across = Axis.holding([x for x, _ in points], offset + LEFT, offset + WIDTH - RIGHT)
    up = Axis.holding([y for _, y in points], HEIGHT - BOTTOM, TOP + LINE_HEIGHT * len(chart.curves))
    yield _text(offset + LEFT, 18, chart.title, weight="bold")
    for tick in across.ticks:
        x = across.place(tick)
        yield _line(x, up.begins, x, up.ends)
        yield _text(x, HEIGHT - BOTTOM + 16, f"{tick:,.0f}", anchor="middle")
    for tick in up.ticks:
        y = up.place(tick)
        yield _line(across.begins, y, across.ends, y)
        yield _text(across.begins - 6, y + 4, f"{tick:,g}", anchor="end")
    yield _text((across.begins + across.ends) / 2, HEIGHT - 12, chart.grows, anchor="middle")
    yield _text(offset + 8, 18, chart.unit, fill="#555")
    for number, curve in enumerate(chart.curves):
        yield from _curve(curve, COLOURS[number % len(COLOURS)], across, up)
        yield _text(offset + LEFT + 4, TOP + LINE_HEIGHT * number, curve.name, fill=COLOURS[number % len(COLOURS)])


def _curve(curve: Curve, colour: str, across: Axis, up: Axis) -> Iterator[str]:
    places = [(across.place(x), up.place(y)) for x, y in curve.points]
    drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    yield f'<polyline points="{drawn}" fill="none" stroke="{colour}" stroke-width="2"/>'
    for x, y in places:
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>'


def _line(x: float, y: float, other_x: float, other_y: float) -> str:
    return f'<path d="M{x:.1f} {y:.1f}L{other_x:.1f} {other_y:.1f}" stroke="#ddd"/>'


def _text(x: float, y: float, text: str, *, anchor: str = "start", fill: str = "#222", weight: str = "normal") -> str:
    how = f'text-anchor="{anchor}" fill="{fill}" font-weight="{weight}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {how}>{escape(text)}</text>'
