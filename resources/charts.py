"""SVG charts over time, for domains, ingest efficiency and other apps.

Gives shapes and tables; `resources/plot.html` draws a plot of them.

PURE: imports neither Django, Celery, Redis nor the network; the time is an argument.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import heappop, heappush, nlargest
from itertools import islice
from statistics import median
from typing import Generic, Protocol, TypeVar

CHART_WIDTH, CHART_HEIGHT = 720.0, 100.0

_ROUND_FACTORS = (1, 2, 2.5, 5, 10)
_TICK_INTERVALS = 4
_BAR_WIDTH_SHARE = 0.8


@dataclass(frozen=True, slots=True)
class ChartBar:
    """A rectangle and its tooltip. `kind` decides its colour."""

    x: float
    y: float
    width: float
    height: float
    label: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Plot:
    """One diagram: bars, polylines and labelled dots. `name` is a CSS class, and begins those of its bars' kinds.

    `reach` is the text at the upper end of its axis.
    """

    name: str
    reach: str
    bars: tuple[ChartBar, ...] = ()
    lines: tuple[str, ...] = ()
    dots: tuple[tuple[float, float, str], ...] = ()


class ChartRow(Protocol):
    """A row of a chart's table."""

    @property
    def is_busy(self) -> bool: ...


Row = TypeVar("Row", bound=ChartRow)


@dataclass(frozen=True, slots=True)
class Chart(Generic[Row]):
    """Plots above one axis of time, with the rows of their table and a sentence that sums them up.

    `times` are written below the axis. `rows` are in the order of time.
    """

    plots: tuple[Plot, ...]
    times: tuple[datetime, ...]
    rows: tuple[Row, ...]
    summary: str

    @property
    def busy_rows(self) -> list[Row]:
        """The rows that the table shows, the latest first."""
        return [row for row in reversed(self.rows) if row.is_busy]


def upright_bar(place: int, places: int, part: float, label: str, *, kind: str = "", least: float = 1.0) -> ChartBar:
    """Returns a bar that stands in one of `places` columns, `part` (0 to 1) of the axis high.

    It is at least `least` high: a small value is never drawn as none.
    """
    width, height = CHART_WIDTH / places, max(least, part * CHART_HEIGHT)
    return ChartBar(
        round(place * width, 2),
        round(CHART_HEIGHT - height, 2),
        round(width * _BAR_WIDTH_SHARE, 2),
        round(height, 2),
        label,
        kind,
    )


def chart_period(now: datetime, length: timedelta, step: timedelta) -> tuple[datetime, datetime]:
    """Returns the start and end of a chart of that length: whole steps, the current one included."""
    seconds = step.total_seconds()
    until = datetime.fromtimestamp((now.timestamp() // seconds + 1) * seconds, now.tzinfo)
    return until - length, until


def axis_times(since: datetime, length: timedelta) -> tuple[datetime, ...]:
    """Returns the times written below a chart, its two ends included."""
    return tuple(since + part * length / _TICK_INTERVALS for part in range(_TICK_INTERVALS + 1))


def axis_top(most: float) -> float:
    """Returns an axis' top: the smallest of 1, 2, 2.5, 5 times a power of ten that is not below `most`. At least 1."""
    power = 1.0
    while power * 10 < most:
        power *= 10
    return next(power * nice for nice in _ROUND_FACTORS if power * nice >= most)


def format_reach(top: float) -> str:
    return f"{top:,.10g}"


RATE_STEPS = {1: timedelta(minutes=1), 6: timedelta(minutes=5), 24: timedelta(minutes=15)}
"""The width of a bar, by the hours that the chart covers."""

RATE_WINDOW = timedelta(hours=1)
"""The rate is the mean over so long before, or over the chart if that is shorter."""


@dataclass(frozen=True, slots=True)
class RequestTally:
    """Requests that began within one step, and the number of refused ones (429, or 503 as a refusal)."""

    at: datetime
    requests: int
    refused: int


@dataclass(frozen=True, slots=True)
class RateRow:
    """A step in the table: numbers per minute."""

    at: datetime
    requests: float
    refused: float
    rate: float

    @property
    def is_busy(self) -> bool:
        return self.requests > 0


def draw_rate_chart(tallies: Sequence[RequestTally], hours: int) -> Chart[RateRow]:
    """Draws requests per minute with their rate, and refusals, of steps that follow one another without a gap."""
    rows = tuple(_rate_rows(tallies, RATE_STEPS[hours]))
    top = axis_top(max((max(row.requests, row.rate) for row in rows), default=0))
    refused_top = axis_top(max((row.refused for row in rows), default=0))
    return Chart(
        plots=(
            Plot("requests", format_reach(top), tuple(_rate_bars(rows, top, "requests")), (_rate_line(rows, top),)),
            Plot("refused", format_reach(refused_top), tuple(_rate_bars(rows, refused_top, "refused"))),
        ),
        times=axis_times(tallies[0].at, timedelta(hours=hours)),
        rows=rows,
        summary=_summarise_rates(tallies, hours, rows),
    )


def _rate_rows(tallies: Sequence[RequestTally], step: timedelta) -> Iterator[RateRow]:
    minutes = step.total_seconds() / 60
    back = round(RATE_WINDOW / step)
    for index, tally in enumerate(tallies):
        recent = list(islice(tallies, max(0, index + 1 - back), index + 1))
        rate = sum(one.requests for one in recent) / (len(recent) * minutes)
        yield RateRow(tally.at, tally.requests / minutes, tally.refused / minutes, rate)


def _rate_bars(rows: Sequence[RateRow], top: float, what: str) -> Iterator[ChartBar]:
    for index, row in enumerate(rows):
        value = row.requests if what == "requests" else row.refused
        if value:
            label = f"{row.at:%H:%M} UTC: {_format_rate(value)} {what} per minute"
            yield upright_bar(index, len(rows), value / top, label)


def _rate_line(rows: Sequence[RateRow], top: float) -> str:
    """Returns the rate, as points of a polyline in the middle of their steps."""
    width = CHART_WIDTH / len(rows)
    return " ".join(
        f"{(i + 0.5) * width:.2f},{CHART_HEIGHT - row.rate / top * CHART_HEIGHT:.2f}" for i, row in enumerate(rows)
    )


def _summarise_rates(tallies: Sequence[RequestTally], hours: int, rows: Sequence[RateRow]) -> str:
    requests, refused = sum(one.requests for one in tallies), sum(one.refused for one in tallies)
    when = "the last hour" if hours == 1 else f"the last {hours} hours"
    if not requests:
        return f"No requests in {when}."
    most = max(row.requests for row in rows)
    return f"Requests in {when}: {requests:,}, refused: {refused:,}; at most {_format_rate(most)} per minute."


def _format_rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


INGEST_SPANS = {1: timedelta(hours=1), 7: timedelta(hours=3), 30: timedelta(hours=12)}
"""The width of a bar by the days that the chart covers."""

INGEST_STEPS = ("known", "redirect", "validators", "unchanged", "content", "new", "failed", "refused")
"""Steps in the order of the stack: from the least to the most effort, with failures on top."""

NEW_TALLY, BODY_TALLY, REPORTED_TALLY = "new", "body", "reported"

StepCounts = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class IngestRow:
    """A span of time in the table. `efficiency` is None in a span without downloads."""

    at: datetime
    counts: StepCounts
    efficiency: float | None

    @property
    def cells(self) -> list[int]:
        return [self.counts.get(step, 0) for step in INGEST_STEPS]

    @property
    def is_busy(self) -> bool:
        return any(self.counts.values())


def gather_ingest_rows(
    hours: Mapping[datetime, StepCounts], since: datetime, until: datetime, span: timedelta
) -> list[IngestRow]:
    """Returns rows of successive spans without a gap, from counts by the hour."""
    rows = []
    for index in range(round((until - since) / span)):
        at = since + index * span
        counts: Counter[str] = Counter()
        for hour in range(round(span / timedelta(hours=1))):
            counts.update(hours.get(at + timedelta(hours=hour), {}))
        rows.append(IngestRow(at, counts, ingest_efficiency(counts)))
    return rows


def ingest_efficiency(counts: StepCounts) -> float | None:
    """Returns the part of downloads that was newly stored. None without downloads."""
    return counts.get(NEW_TALLY, 0) / counts[BODY_TALLY] if counts.get(BODY_TALLY) else None


def draw_ingest_chart(rows: Sequence[IngestRow], days: int) -> Chart[IngestRow]:
    """Draws the URLs of each span by the step that settled them, and the efficiency."""
    top = axis_top(max((sum(row.cells) for row in rows), default=0))
    lines, dots = _efficiency_lines(rows)
    return Chart(
        plots=(
            Plot("step", format_reach(top), tuple(_ingest_bars(rows, top))),
            Plot("efficiency", "100 %", lines=lines, dots=dots),
        ),
        times=axis_times(rows[0].at, timedelta(days=days)),
        rows=tuple(rows),
        summary=_summarise_ingest(_sum_steps(rows), days),
    )


def count_settled_steps(rows: Sequence[IngestRow]) -> list[tuple[str, int]]:
    """Returns the steps that settled URLs, in the order of the stack, each with the number of URLs."""
    total = _sum_steps(rows)
    return [(step, total[step]) for step in INGEST_STEPS if total.get(step)]


def _sum_steps(rows: Sequence[IngestRow]) -> Counter[str]:
    total: Counter[str] = Counter()
    for row in rows:
        total.update(row.counts)
    return total


def _ingest_bars(rows: Sequence[IngestRow], top: float) -> Iterator[ChartBar]:
    width = CHART_WIDTH / len(rows)
    for index, row in enumerate(rows):
        y = CHART_HEIGHT
        for step, number in zip(INGEST_STEPS, row.cells, strict=True):
            if number:
                height = number / top * CHART_HEIGHT
                y -= height
                label = f"{row.at:%-d %b %H:%M} UTC: {number:,} {step}"
                yield ChartBar(
                    round(index * width, 2), round(y, 3), round(width * 0.86, 2), round(height, 3), label, step
                )


def _efficiency_lines(rows: Sequence[IngestRow]) -> tuple[tuple[str, ...], tuple[tuple[float, float, str], ...]]:
    """Returns lines and dots of the efficiency in the middle of each span, with a gap at spans without downloads."""
    width = CHART_WIDTH / len(rows)
    lines: list[list[str]] = [[]]
    dots = []
    for index, row in enumerate(rows):
        if row.efficiency is None:
            lines.append([])
            continue
        x, y = round((index + 0.5) * width, 2), round(CHART_HEIGHT - min(row.efficiency, 1) * CHART_HEIGHT, 2)
        lines[-1].append(f"{x},{y}")
        dots.append((x, y, f"{row.at:%-d %b %H:%M} UTC: {row.efficiency:.0%} of the downloaded bodies new"))
    return tuple(" ".join(points) for points in lines if len(points) > 1), tuple(dots)


def _summarise_ingest(total: StepCounts, days: int) -> str:
    when = "the last day" if days == 1 else f"the last {days} days"
    settled = sum(total.get(step, 0) for step in INGEST_STEPS)
    if not settled and not total.get(BODY_TALLY):
        return f"No URLs settled in {when}."
    found = ingest_efficiency(total)
    gave = "no bodies downloaded" if found is None else f"{total[BODY_TALLY]:,} bodies downloaded, {found:.0%} new"
    return f"URLs settled in {when}: {settled:,}; {gave}."


MAX_SLOT_BARS = 500
"""The longest runs are drawn: a chart of thousands would be heavy, and short bars are hard to see."""


@dataclass(frozen=True, slots=True)
class SlotRun:
    """A run of something in a slot: its name, its start in seconds, its duration. `kind` decides its colour."""

    name: str
    began: float
    seconds: float
    kind: str = ""

    @property
    def ended(self) -> float:
        return self.began + self.seconds

    @property
    def is_busy(self) -> bool:
        return True


def draw_slot_chart(
    name: str, runs: Sequence[SlotRun], since: datetime, bound_seconds: float, what: str
) -> Chart[SlotRun]:
    """Draws slots over time: a bar for each of the longest runs, and the lower bound of their time as a line.

    `name` is that of the plot, `what` the word for many runs; starts count from `since`.
    """
    in_order = sorted(runs, key=lambda run: run.began)
    slots = assign_slots(in_order)
    number = max(slots, default=0) + 1
    length = max([bound_seconds, *(run.ended for run in in_order)]) or 1.0
    drawn = set(nlargest(MAX_SLOT_BARS, range(len(in_order)), key=lambda place: in_order[place].seconds))
    bars = tuple(_slot_bar(in_order[place], slots[place] / number, 1 / number, length) for place in sorted(drawn))
    x = round(bound_seconds / length * CHART_WIDTH, 2)
    return Chart(
        plots=(Plot(name, f"{number:,}", bars, lines=(f"{x},0 {x},{CHART_HEIGHT:g}",)),),
        times=axis_times(since, timedelta(seconds=length)),
        rows=tuple(in_order[place] for place in sorted(drawn)),
        summary=_summarise_slots(in_order, number, len(in_order) - len(drawn), what),
    )


def assign_slots(in_order: Sequence[SlotRun]) -> list[int]:
    """Returns for each run, in the order of their starts, the lowest slot that is free then."""
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    found = []
    for run in in_order:
        while busy and busy[0][0] <= run.began:
            heappush(free, heappop(busy)[1])
        slot = heappop(free) if free else len(busy)
        heappush(busy, (run.ended, slot))
        found.append(slot)
    return found


def _slot_bar(run: SlotRun, bottom: float, part: float, length: float) -> ChartBar:
    """`bottom` and `part` are the start and the height of the slot, as parts of the axis."""
    return ChartBar(
        round(run.began / length * CHART_WIDTH, 2),
        round((1 - bottom - part) * CHART_HEIGHT, 3),
        round(max(0.5, run.seconds / length * CHART_WIDTH), 2),
        round(part * CHART_HEIGHT * _BAR_WIDTH_SHARE, 3),
        f"{run.name}: {run.seconds:.2f} s, from {run.began:.1f} s on",
        run.kind,
    )


def _summarise_slots(runs: Sequence[SlotRun], slots: int, left_out: int, what: str) -> str:
    if not runs:
        return f"No {what} on record."
    ends = [run.ended for run in runs]
    text = f"{len(runs):,} {what}, at most {slots:,} at once: half of them had ended after {median(ends):,.1f} s"
    not_drawn = f" The {left_out:,} shortest are not drawn." if left_out else ""
    return f"{text}, all after {max(ends):,.1f} s.{not_drawn}"
