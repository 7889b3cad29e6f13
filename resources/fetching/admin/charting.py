"""A chart of what a domain was asked over time: shapes for an SVG, and the table behind it. PURE."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice

from resources.charts import HEIGHT, WIDTH, Bar, nice_top, standing, ticks

STEPS = {1: timedelta(minutes=1), 6: timedelta(minutes=5), 24: timedelta(minutes=15)}
"""How wide a bar is, by the hours that the chart covers."""

RATE_TIME = timedelta(hours=1)
"""The rate is that of the time before, so long as this, or as the chart where that is shorter."""


@dataclass(frozen=True, slots=True)
class Tally:
    """Requests that began within one step, and how many of them were refused (429, or 503 as a refusal)."""

    at: datetime
    requests: int
    refused: int


@dataclass(frozen=True, slots=True)
class Row:
    """A step in the table: numbers per minute."""

    at: datetime
    requests: float
    refused: float
    rate: float


@dataclass(frozen=True, slots=True)
class Plot:
    """One diagram, with what its vertical axis reaches up to, per minute."""

    top: float
    bars: tuple[Bar, ...]
    line: str = ""


@dataclass(frozen=True, slots=True)
class Chart:
    """Requests per minute with their rate, and refusals per minute, on one axis of time."""

    hours: int
    step: timedelta
    times: tuple[datetime, ...]
    requests: Plot
    refused: Plot
    rows: tuple[Row, ...]
    summary: str

    @property
    def busy_rows(self) -> list[Row]:
        """The steps in which there was something, the latest first."""
        return [row for row in reversed(self.rows) if row.requests]


def chart(tallies: Sequence[Tally], hours: int) -> Chart:
    """The chart of steps that follow one another without a gap."""
    step = STEPS[hours]
    rows = tuple(_rows(tallies, step))
    top = nice_top(max((max(row.requests, row.rate) for row in rows), default=0))
    refused_top = nice_top(max((row.refused for row in rows), default=0))
    return Chart(
        hours=hours,
        step=step,
        times=ticks(tallies[0].at, timedelta(hours=hours)),
        requests=Plot(top, tuple(_bars(rows, top, "requests")), _line(rows, top)),
        refused=Plot(refused_top, tuple(_bars(rows, refused_top, "refused"))),
        rows=rows,
        summary=_summary(tallies, hours, rows),
    )


def _rows(tallies: Sequence[Tally], step: timedelta) -> Iterator[Row]:
    minutes = step.total_seconds() / 60
    back = round(RATE_TIME / step)
    for index, tally in enumerate(tallies):
        recent = list(islice(tallies, max(0, index + 1 - back), index + 1))
        rate = sum(one.requests for one in recent) / (len(recent) * minutes)
        yield Row(tally.at, tally.requests / minutes, tally.refused / minutes, rate)


def _bars(rows: Sequence[Row], top: float, what: str) -> Iterator[Bar]:
    for index, row in enumerate(rows):
        value = row.requests if what == "requests" else row.refused
        if value:
            label = f"{row.at:%H:%M} UTC: {_figure(value)} {what} per minute"
            yield standing(index, len(rows), value / top, label)


def _line(rows: Sequence[Row], top: float) -> str:
    """The rate, as points of a polyline in the middle of their steps."""
    width = WIDTH / len(rows)
    return " ".join(f"{(i + 0.5) * width:.2f},{HEIGHT - row.rate / top * HEIGHT:.2f}" for i, row in enumerate(rows))


def _summary(tallies: Sequence[Tally], hours: int, rows: Sequence[Row]) -> str:
    requests, refused = sum(one.requests for one in tallies), sum(one.refused for one in tallies)
    when = "the last hour" if hours == 1 else f"the last {hours} hours"
    if not requests:
        return f"No requests in {when}."
    most = max(row.requests for row in rows)
    return f"{requests:,} requests in {when}, {refused:,} of them refused; at most {_figure(most)} per minute."


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
