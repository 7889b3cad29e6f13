"""The chart of a feed's last fetches: what its bars and its sentence say."""

from datetime import UTC, datetime, timedelta

import pytest

from feeds.admin import charting
from feeds.admin.charting import Fetched
from resources.charts import HEIGHT, WIDTH

AT = datetime(2026, 11, 22, 12, tzinfo=UTC)


def fetches(*seconds: float, outcome: str = "fetched", status: int | None = 200) -> list[Fetched]:
    """The latest first, an hour apart."""
    return [Fetched(AT - n * timedelta(hours=1), each, 2048, outcome, status) for n, each in enumerate(seconds)]


def test_the_latest_fetch_is_on_the_right_and_first_in_the_table() -> None:
    chart = charting.chart(fetches(0.1, 0.2, 0.3))
    assert [bar.label.split(",")[1] for bar in chart.bars] == [" 0.30 s", " 0.20 s", " 0.10 s"]
    assert chart.bars[-1].x + chart.bars[-1].width <= WIDTH
    assert chart.rows[0].at == AT
    assert chart.ends == (AT - timedelta(hours=2), AT)


def test_bars_reach_no_higher_than_the_axis_and_are_never_nothing() -> None:
    chart = charting.chart(fetches(29.9, 0.0001))
    assert chart.top == 50
    assert [bar.height for bar in chart.bars] == [2.0, pytest.approx(29.9 / 50 * HEIGHT, abs=0.01)]
    assert all(bar.y + bar.height == pytest.approx(HEIGHT) for bar in chart.bars)


@pytest.mark.parametrize(("seconds", "top"), [(0.0004, 0.001), (0.042, 0.05), (0.9, 1), (1.1, 2)])
def test_the_axis_fits_fetches_of_any_length(seconds: float, top: float) -> None:
    assert charting.chart(fetches(seconds)).top == top


def test_no_more_are_shown_than_have_room() -> None:
    chart = charting.chart(fetches(*[1.0] * 70))
    assert len(chart.bars) == len(chart.rows) == charting.MOST
    assert chart.bars[0].x == 0


@pytest.mark.parametrize(
    ("outcome", "kind"),
    [("fetched", "new"), ("not modified", "same"), ("throttled", "failed"), ("permanent", "failed")],
)
def test_bars_are_coloured_by_what_came(outcome: str, kind: str) -> None:
    assert charting.chart(fetches(1, outcome=outcome)).bars[0].kind == kind


def test_the_sentence_counts_what_came() -> None:
    chart = charting.chart([*fetches(1, 3), *fetches(2, outcome="not modified", status=304)])
    assert chart.summary == ("The last 3 fetches: 2 brought a body, 1 not modified; 2.00 s on average, 6.1 KB in all.")
    assert charting.chart(fetches(1, outcome="transient", status=None)).summary.startswith("The only fetch that is")
    assert chart.rows[-1].said == "not modified (304)"


def test_a_feed_that_was_never_fetched_has_an_empty_chart() -> None:
    chart = charting.chart([])
    assert (chart.bars, chart.ends, chart.summary) == ((), None, "It was not fetched lately.")
