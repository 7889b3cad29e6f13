"""Curves as figures, and as a picture in the documentation."""

import os
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime

from tests.support.stack import ROOT

from ..figures import Figure, Note
from . import curve_chart
from .curve_chart import Chart

DOCUMENTS = ROOT / "docs"


def drawn(name: str, measured: Callable[[], Sequence[Chart]]) -> Iterator[Figure | Note]:
    """Every point, then where the picture is: `docs/growth-<name>.svg`. It says how busy the machine was."""
    load = os.getloadavg()[0]
    charts = measured()
    for chart in charts:
        yield Note(f"{chart.title}, by {chart.grows}")
        for curve in chart.curves:
            for x, y in curve.points:
                yield Figure(f"{curve.name}, {x:,.0f}", y, chart.unit)
            yield Figure("  its exponent at the end", curve.exponent)
    file = DOCUMENTS / f"growth-{name}.svg"
    caption = f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, load {load:.1f} when it began"
    file.write_text(curve_chart.svg(charts, caption))
    yield Note(f"drawn: {file.relative_to(ROOT)}")
