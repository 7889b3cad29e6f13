"""Charts: their axes, the chart of a domain with its table, and the chart of dedupe."""

from datetime import UTC, datetime, timedelta

import pytest

from resources import charts
from tests.support.fetch_outcomes import NOON


def tallies(counts: dict[int, tuple[int, int]], hours: int = 6) -> list[charts.RequestTally]:
    """The steps of so many hours, some of them with requests and refusals."""
    steps = int(timedelta(hours=hours) / charts.RATE_STEPS[hours])
    return [
        charts.RequestTally(NOON + index * charts.RATE_STEPS[hours], *counts.get(index, (0, 0)))
        for index in range(steps)
    ]


def test_numbers_are_per_minute_whatever_the_step() -> None:
    found = charts.draw_rate_chart(tallies({0: (10, 5), 71: (1, 0)}), 6)
    assert [(row.requests, row.refused) for row in (found.rows[0], found.rows[1], found.rows[71])] == [
        (2, 1),
        (0, 0),
        (0.2, 0),
    ]
    assert [row.at for row in found.busy_rows] == [NOON + 71 * charts.RATE_STEPS[6], NOON]


def test_the_rate_is_that_of_the_hour_before() -> None:
    found = charts.draw_rate_chart(tallies({0: (60, 0), 20: (120, 0)}), 6)
    assert found.rows[0].rate == 12  # there is no hour before it yet
    assert found.rows[11].rate == 1
    assert found.rows[12].rate == 0
    assert found.rows[31].rate == 2


def test_bars_stand_on_the_ground_within_the_plot_and_so_does_the_line() -> None:
    found = charts.draw_rate_chart(tallies({index: (index, index // 2) for index in range(72)}), 6)
    for bar in (*found.plots[0].bars, *found.plots[1].bars):
        assert bar.y + bar.height == pytest.approx(charts.CHART_HEIGHT, abs=0.02)
        assert 0 <= bar.x < bar.x + bar.width <= charts.CHART_WIDTH
        assert bar.y >= 0
    assert len(found.plots[0].bars) == 71  # a step without requests has none
    assert found.plots[0].bars[0].label == "12:05 UTC: 0.2 requests per minute"
    assert found.plots[1].bars[-1].label == "17:55 UTC: 7 refused per minute"
    points = [tuple(map(float, point.split(","))) for point in found.plots[0].lines[0].split()]
    assert len(points) == 72
    assert all(0 <= x <= charts.CHART_WIDTH and 0 <= y <= charts.CHART_HEIGHT for x, y in points)
    few_among_many = charts.draw_rate_chart(tallies({0: (1_000_000, 0), 1: (1, 0)}), 6)
    assert few_among_many.plots[0].bars[1].height >= 1


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ({}, "No requests in the last 6 hours."),
        ({3: (1200, 7)}, "Requests in the last 6 hours: 1,200, refused: 7; at most 240 per minute."),
    ],
)
def test_a_sentence_sums_it_up(counts: dict[int, tuple[int, int]], said: str) -> None:
    assert charts.draw_rate_chart(tallies(counts), 6).summary == said
    assert charts.draw_rate_chart(tallies({}, 1), 1).summary == "No requests in the last hour."


NOW = datetime(2026, 11, 21, 10, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)


def rows(*counts: dict[str, int]) -> list[charts.IngestRow]:
    since, until = charts.chart_period(NOW, timedelta(days=1), charts.INGEST_SPANS[1])
    hours = {until - (len(counts) - index) * HOUR: one for index, one in enumerate(counts)}
    return charts.gather_ingest_rows(hours, since, until, charts.INGEST_SPANS[1])


@pytest.mark.parametrize("days", list(charts.INGEST_SPANS))
def test_every_hour_is_in_one_span(days: int) -> None:
    since, until = charts.chart_period(NOW, timedelta(days=days), charts.INGEST_SPANS[days])
    hours = {since + number * HOUR: {"new": 1} for number in range(24 * days)}
    found = charts.gather_ingest_rows(hours, since, until, charts.INGEST_SPANS[days])
    assert sum(row.counts["new"] for row in found) == 24 * days
    assert {row.counts["new"] for row in found} == {charts.INGEST_SPANS[days] // HOUR}


def test_parts_are_stacked_as_high_as_their_numbers() -> None:
    found = charts.draw_ingest_chart(rows({"known": 75, "new": 20, "failed": 5, "body": 25, "reported": 100}), 1)
    assert found.plots[0].reach == "100"
    assert [(part.kind, part.y, part.height) for part in found.plots[0].bars] == [
        ("known", 25, 75),
        ("new", 5, 20),
        ("failed", 0, 5),
    ]
    assert found.plots[0].bars[0].label == "21 Nov 10:00 UTC: 75 known"


def test_efficiency_is_what_was_new_of_what_was_downloaded() -> None:
    found = charts.draw_ingest_chart(rows({"new": 1, "body": 4}, {"known": 9}, {"new": 2, "body": 2}, {"body": 2}), 1)
    assert [row.efficiency for row in found.rows[-4:]] == [0.25, None, 1, 0]
    [line] = found.plots[1].lines  # the first stands alone
    assert [float(point.split(",")[1]) for point in line.split()] == [0, charts.CHART_HEIGHT]
    assert len(found.plots[1].dots) == 3


def test_the_legend_counts_all_that_was_settled() -> None:
    found = charts.draw_ingest_chart(rows({"known": 3, "body": 7, "reported": 9}, {"new": 1}), 1)
    assert charts.count_settled_steps(found.rows) == [("known", 3), ("new", 1)]
    assert found.summary == "URLs settled in the last day: 4; 7 bodies downloaded, 14% new."


def test_nothing_is_a_chart_too() -> None:
    found = charts.draw_ingest_chart(rows(), 1)
    assert found.summary == "No URLs settled in the last day."
    assert (found.plots[0].bars, found.plots[1].lines, found.busy_rows) == ((), (), [])


CHARTS = [
    *((timedelta(hours=hours), step) for hours, step in charts.RATE_STEPS.items()),
    *((timedelta(days=days), span) for days, span in charts.INGEST_SPANS.items()),
]


@pytest.mark.parametrize(("length", "step"), CHARTS)
def test_a_chart_reaches_from_whole_steps_to_the_end_of_the_one_that_is_now(length: timedelta, step: timedelta) -> None:
    now = datetime(2026, 11, 21, 12, 7, 30, tzinfo=UTC)
    since, until = charts.chart_period(now, length, step)
    assert until - since == length
    assert until - step <= now < until
    assert since.timestamp() % step.total_seconds() == 0
    assert charts.chart_period(until, length, step) == (since + step, until + step)


def test_the_times_below_a_chart_are_its_ends_and_what_divides_it_evenly() -> None:
    noon, hour = datetime(2026, 11, 21, 12, tzinfo=UTC), timedelta(hours=1)
    assert charts.axis_times(noon, 4 * hour) == tuple(noon + number * hour for number in range(5))


@pytest.mark.parametrize(
    ("most", "top"), [(0, 1), (0.2, 1), (1, 1), (1.1, 2), (2.2, 2.5), (4, 5), (6, 10), (11, 20), (999, 1000)]
)
def test_an_axis_ends_at_a_round_number(most: float, top: float) -> None:
    assert charts.axis_top(most) == top


def slot_runs(*spans: tuple[float, float]) -> list[charts.SlotRun]:
    return [charts.SlotRun(f"run {place}", began, seconds) for place, (began, seconds) in enumerate(spans)]


def test_a_run_is_drawn_in_the_lowest_slot_that_is_free_at_its_start() -> None:
    runs = slot_runs((0, 4), (0, 1), (1, 2), (2, 1), (3, 1))
    assert charts.assign_slots(runs) == [0, 1, 1, 2, 1]


def test_the_chart_of_slots_has_a_bar_for_each_run_and_the_bound_as_a_line() -> None:
    found = charts.draw_slot_chart("fetch", slot_runs((0, 4), (0, 2)), NOON, 5.0, "fetches")
    [plot] = found.plots
    assert [(bar.x, bar.width, bar.y) for bar in plot.bars] == [(0, 576, 50), (0, 288, 0)]
    assert plot.bars[1].label == "run 1: 2.00 s, from 0.0 s on"
    assert (plot.lines, plot.reach) == (("720.0,0 720.0,100",), "2")
    assert found.summary == "2 fetches, at most 2 at once: half of them had ended after 3.0 s, all after 4.0 s."


def test_of_thousands_of_runs_the_longest_are_drawn_and_the_summary_tells_how_many_are_not() -> None:
    runs = slot_runs(*((0.0, seconds) for seconds in range(3_000)))
    found = charts.draw_slot_chart("fetch", runs, NOON, 1, "fetches")
    assert len(found.plots[0].bars) == len(found.rows) == charts.MAX_SLOT_BARS
    assert min(run.seconds for run in found.rows) == 2_500
    assert found.summary.endswith("The 2,500 shortest are not drawn.")
    assert charts.draw_slot_chart("fetch", [], NOON, 0, "fetches").summary == "No fetches on record."
