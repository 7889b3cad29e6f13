"""A chart of what settled URLs over time, and of how much downloads gave: shapes for an SVG, and its table. PURE."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from resources.charts import HEIGHT, WIDTH, Bar, nice_top, ticks

SPANS = {1: timedelta(hours=1), 7: timedelta(hours=3), 30: timedelta(hours=12)}
"""How wide a bar is, by the days that the chart covers."""

STEPS = ("known", "redirect", "validators", "unchanged", "content", "new", "failed", "refused")
"""From the least to the most effort, as they are stacked, and what came to nothing on top."""

NEW, BODY, REPORTED = "new", "body", "reported"

Counts = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Row:
    """A span of time in the table. `efficiency` is None where nothing was downloaded."""

    at: datetime
    counts: Counts
    efficiency: float | None

    @property
    def cells(self) -> list[int]:
        return [self.counts.get(step, 0) for step in STEPS]


@dataclass(frozen=True, slots=True)
class Share:
    """A step, how many URLs it settled, and which part of all that is."""

    step: str
    number: int
    part: float


@dataclass(frozen=True, slots=True)
class Chart:
    """`lines` are points of polylines: the efficiency of spans that follow one another, and those that stand alone."""

    days: int
    times: tuple[datetime, ...]
    top: float
    parts: tuple[Bar, ...]
    lines: tuple[str, ...]
    dots: tuple[tuple[float, float, str], ...]
    rows: tuple[Row, ...]
    shares: tuple[Share, ...]
    summary: str

    @property
    def busy_rows(self) -> list[Row]:
        """Those in which there was something, the latest first."""
        return [row for row in reversed(self.rows) if any(row.counts.values())]


def gathered(hours: Mapping[datetime, Counts], since: datetime, until: datetime, span: timedelta) -> list[Row]:
    """Rows of spans that follow one another without a gap, from counts by the hour."""
    rows = []
    for index in range(round((until - since) / span)):
        at = since + index * span
        counts: dict[str, int] = {}
        for hour in range(round(span / timedelta(hours=1))):
            for step, number in hours.get(at + timedelta(hours=hour), {}).items():
                counts[step] = counts.get(step, 0) + number
        rows.append(Row(at, counts, efficiency(counts)))
    return rows


def efficiency(counts: Counts) -> float | None:
    """What was newly stored, of what was downloaded. None where nothing was."""
    return counts.get(NEW, 0) / counts[BODY] if counts.get(BODY) else None


def chart(rows: Sequence[Row], days: int) -> Chart:
    """The chart of those rows."""
    top = nice_top(max((sum(row.cells) for row in rows), default=0))
    total: dict[str, int] = {}
    for row in rows:
        for name, number in row.counts.items():
            total[name] = total.get(name, 0) + number
    lines, dots = _lines(rows)
    return Chart(
        days=days,
        times=ticks(rows[0].at, timedelta(days=days)),
        top=top,
        parts=tuple(_parts(rows, top)),
        lines=lines,
        dots=dots,
        rows=tuple(rows),
        shares=tuple(_shares(total)),
        summary=_summary(total, days),
    )


def _parts(rows: Sequence[Row], top: float) -> Iterator[Bar]:
    width = WIDTH / len(rows)
    for index, row in enumerate(rows):
        y = HEIGHT
        for step, number in zip(STEPS, row.cells, strict=True):
            if number:
                height = number / top * HEIGHT
                y -= height
                label = f"{row.at:%-d %b %H:%M} UTC: {number:,} {step}"
                yield Bar(round(index * width, 2), round(y, 3), round(width * 0.86, 2), round(height, 3), label, step)


def _lines(rows: Sequence[Row]) -> tuple[tuple[str, ...], tuple[tuple[float, float, str], ...]]:
    """Efficiency in the middle of its spans; where nothing was downloaded the line has a gap."""
    width = WIDTH / len(rows)
    lines: list[list[str]] = [[]]
    dots = []
    for index, row in enumerate(rows):
        if row.efficiency is None:
            lines.append([])
            continue
        x, y = round((index + 0.5) * width, 2), round(HEIGHT - min(row.efficiency, 1) * HEIGHT, 2)
        lines[-1].append(f"{x},{y}")
        dots.append((x, y, f"{row.at:%-d %b %H:%M} UTC: {row.efficiency:.0%} of what was downloaded was new"))
    return tuple(" ".join(points) for points in lines if len(points) > 1), tuple(dots)


def _shares(total: Counts) -> Iterator[Share]:
    settled = sum(total.get(step, 0) for step in STEPS)
    for step in STEPS:
        if number := total.get(step, 0):
            yield Share(step, number, number / settled)


def _summary(total: Counts, days: int) -> str:
    when = "the last day" if days == 1 else f"the last {days} days"
    settled = sum(total.get(step, 0) for step in STEPS)
    if not settled and not total.get(BODY):
        return f"Nothing was settled in {when}."
    found = efficiency(total)
    gave = "nothing was downloaded" if found is None else f"{total[BODY]:,} bodies were downloaded, {found:.0%} new"
    return f"{settled:,} URLs were settled in {when}: {gave}."
