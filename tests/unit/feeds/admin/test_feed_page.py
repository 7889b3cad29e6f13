"""The chart of a feed's last fetches: its bars and its sentence."""

from datetime import UTC, datetime, timedelta

import pytest

from feeds.admin import feed_page
from feeds.admin.feed_page import ChartedFetch
from resources.charts import CHART_HEIGHT, CHART_WIDTH

AT = datetime(2026, 11, 22, 12, tzinfo=UTC)


def fetches(*seconds: float, outcome: str = "fetched", status: int | None = 200) -> list[ChartedFetch]:
    """The latest first, an hour apart."""
    return [ChartedFetch(AT - n * timedelta(hours=1), each, 2048, outcome, status) for n, each in enumerate(seconds)]


def test_the_latest_fetch_is_on_the_right_and_first_in_the_table() -> None:
    chart = feed_page.draw_feed_chart(fetches(0.1, 0.2, 0.3))
    assert [bar.label.split(",")[1] for bar in chart.plots[0].bars] == [" 0.30 s", " 0.20 s", " 0.10 s"]
    last = chart.plots[0].bars[-1]
    assert last.x + last.width <= CHART_WIDTH
    assert chart.busy_rows[0].at == AT
    assert chart.times == (AT - timedelta(hours=2), AT)


def test_bars_reach_no_higher_than_the_axis_and_are_never_nothing() -> None:
    chart = feed_page.draw_feed_chart(fetches(29.9, 0.0001))
    assert chart.plots[0].reach == "50 s"
    assert [bar.height for bar in chart.plots[0].bars] == [2.0, pytest.approx(29.9 / 50 * CHART_HEIGHT, abs=0.01)]
    assert all(bar.y + bar.height == pytest.approx(CHART_HEIGHT) for bar in chart.plots[0].bars)


@pytest.mark.parametrize(("seconds", "top"), [(0.0004, "0.001 s"), (0.042, "0.05 s"), (0.9, "1 s"), (1.1, "2 s")])
def test_the_axis_fits_fetches_of_any_length(seconds: float, top: str) -> None:
    assert feed_page.draw_feed_chart(fetches(seconds)).plots[0].reach == top


def test_no_more_are_shown_than_have_room() -> None:
    chart = feed_page.draw_feed_chart(fetches(*[1.0] * 70))
    assert len(chart.plots[0].bars) == len(chart.busy_rows) == feed_page.MAX_CHART_FETCHES
    assert chart.plots[0].bars[0].x == 0


@pytest.mark.parametrize(
    ("outcome", "kind"),
    [("fetched", "new"), ("not modified", "same"), ("throttled", "failed"), ("permanent", "failed")],
)
def test_bars_are_coloured_by_what_came(outcome: str, kind: str) -> None:
    assert feed_page.draw_feed_chart(fetches(1, outcome=outcome)).plots[0].bars[0].kind == kind


def test_the_sentence_counts_what_came() -> None:
    chart = feed_page.draw_feed_chart([*fetches(1, 3), *fetches(2, outcome="not modified", status=304)])
    assert chart.summary == ("Last 3 fetches: 2 downloaded, 1 not modified; 2.00 s on average, 6.1 KB in all.")
    assert feed_page.draw_feed_chart(fetches(1, outcome="transient", status=None)).summary.startswith(
        "Last fetch: 1 failed"
    )
    assert chart.busy_rows[-1].result == "not modified (304)"


def test_a_feed_that_was_never_fetched_has_an_empty_chart() -> None:
    chart = feed_page.draw_feed_chart([])
    assert (chart.plots[0].bars, chart.times, chart.summary) == ((), (), "No recent fetches.")
