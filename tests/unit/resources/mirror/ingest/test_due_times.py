"""Pauses after failures, and the times of checks for new content."""

from datetime import UTC, datetime, timedelta

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from resources.fetch.http.messages import Head
from resources.mirror.ingest import due_times

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
HOUR, DAY, WEEK = timedelta(hours=1), timedelta(days=1), timedelta(weeks=1)


@pytest.mark.parametrize(
    ("failure", "status", "pauses"),
    [
        ("transient", 500, [HOUR, 6 * HOUR, DAY, WEEK, WEEK]),
        ("permanent", None, [HOUR, 6 * HOUR, DAY, WEEK, WEEK]),
        ("permanent", 404, [DAY, DAY, DAY, WEEK, WEEK]),
        ("permanent", 403, [DAY, DAY, DAY, WEEK, WEEK]),
        ("expired", 403, [DAY, DAY, DAY, WEEK, WEEK]),
    ],
)
def test_the_pause_grows_with_each_failed_round(failure: str, status: int | None, pauses: list[timedelta]) -> None:
    assert [due_times.next_try_at(failure, status, rounds, NOW) for rounds in range(1, 6)] == [
        NOW + pause for pause in pauses
    ]


@pytest.mark.parametrize(
    ("failure", "status"),
    [("permanent", 410), ("expired", None), ("blocked", None), ("taken down", 200)],
)
def test_what_is_gone_or_unwanted_is_not_tried_by_itself(failure: str, status: int | None) -> None:
    assert due_times.next_try_at(failure, status, 1, NOW) is None


def test_a_time_that_no_clock_in_order_has_written_is_past() -> None:
    times = {HOUR: False, due_times.LONGEST_FRESHNESS: False, timedelta(0): True, timedelta(days=31): True}
    assert {later: due_times.is_past(NOW + later, NOW) for later in times} == times


def test_an_origin_that_asks_for_a_longer_pause_gets_it() -> None:
    assert due_times.next_try_at("throttled", 429, 1, NOW, wait_seconds=7200) == NOW + 2 * HOUR
    assert due_times.next_try_at("throttled", 429, 1, NOW, wait_seconds=60) == NOW + HOUR


@pytest.mark.parametrize(
    ("fields", "pause"),
    [
        ({"Cache-Control": "max-age=7200", "Age": "3600"}, HOUR),
        ({"Expires": "Sat, 21 Nov 2026 14:00:00 GMT"}, 2 * HOUR),
        ({"Cache-Control": "max-age=1"}, timedelta(minutes=5)),
        ({"Cache-Control": "max-age=315360000"}, timedelta(days=30)),
        ({"Cache-Control": "no-cache, max-age=7200"}, timedelta(minutes=5)),
        ({"Last-Modified": "Sat, 21 Nov 2026 02:00:00 GMT"}, HOUR),
        ({"Cache-Control": "no-store", "Last-Modified": "Sat, 21 Nov 2026 02:00:00 GMT"}, HOUR),
        ({}, DAY),
    ],
)
def test_content_is_checked_as_often_as_its_origin_says_within_bounds(fields: dict[str, str], pause: timedelta) -> None:
    head = Head(200, "https://example.org/a", CIMultiDictProxy(CIMultiDict(fields)), received_at=NOW.timestamp())
    assert due_times.next_check_at(head, NOW) == NOW + pause
