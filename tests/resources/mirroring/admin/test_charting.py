"""The chart of dedupe: nothing lost between spans, nothing drawn that is not there."""

from datetime import UTC, datetime, timedelta

import pytest

from resources.charts import HEIGHT, reach
from resources.mirroring.admin import charting
from resources.mirroring.admin.charting import SPANS, Row, chart, gathered

NOW = datetime(2026, 11, 21, 10, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)


def rows(*counts: dict[str, int]) -> list[Row]:
    since, until = reach(NOW, timedelta(days=1), SPANS[1])
    hours = {until - (len(counts) - index) * HOUR: one for index, one in enumerate(counts)}
    return gathered(hours, since, until, SPANS[1])


@pytest.mark.parametrize("days", list(SPANS))
def test_every_hour_is_in_one_span(days: int) -> None:
    since, until = reach(NOW, timedelta(days=days), SPANS[days])
    hours = {since + number * HOUR: {"new": 1} for number in range(24 * days)}
    found = gathered(hours, since, until, SPANS[days])
    assert sum(row.counts["new"] for row in found) == 24 * days
    assert {row.counts["new"] for row in found} == {SPANS[days] // HOUR}


def test_parts_are_stacked_as_high_as_their_numbers() -> None:
    found = chart(rows({"known": 75, "new": 20, "failed": 5, "body": 25, "reported": 100}), 1)
    assert found.top == 100
    assert [(part.kind, part.y, part.height) for part in found.parts] == [
        ("known", 25, 75),
        ("new", 5, 20),
        ("failed", 0, 5),
    ]
    assert found.parts[0].label == "21 Nov 10:00 UTC: 75 known"


def test_efficiency_is_what_was_new_of_what_was_downloaded() -> None:
    found = chart(rows({"new": 1, "body": 4}, {"known": 9}, {"new": 2, "body": 2}, {"body": 2}), 1)
    assert [row.efficiency for row in found.rows[-4:]] == [0.25, None, 1, 0]
    [line] = found.lines  # the first stands alone
    assert [float(point.split(",")[1]) for point in line.split()] == [0, HEIGHT]
    assert len(found.dots) == 3


def test_shares_are_of_all_that_was_settled() -> None:
    found = chart(rows({"known": 3, "body": 7, "reported": 9}, {"new": 1}), 1)
    assert [(share.step, share.number, share.part) for share in found.shares] == [("known", 3, 0.75), ("new", 1, 0.25)]
    assert found.summary == "4 URLs were settled in the last day: 7 bodies were downloaded, 14% new."


def test_nothing_is_a_chart_too() -> None:
    found = chart(rows(), 1)
    assert found.summary == "Nothing was settled in the last day."
    assert (found.parts, found.lines, found.busy_rows) == ((), (), [])


def test_the_table_has_the_latest_first_and_no_empty_rows() -> None:
    found = chart(rows({"new": 1}, {}, {"new": 3}), 1)
    assert [row.counts["new"] for row in found.busy_rows] == [3, 1]
    assert charting.efficiency({}) is None
