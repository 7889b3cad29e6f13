"""Hours and days that feeds leave out."""

from datetime import UTC, datetime

import pytest

from feeds.deciding.skipping import first_allowed

NIGHT = frozenset(range(6)) | {22, 23}
WEEKEND = frozenset({5, 6})


def at(day: int, hour: int, minute: int = 0) -> datetime:
    """In November 2026, when the 1st is a Sunday."""
    return datetime(2026, 11, day, hour, minute, tzinfo=UTC)


@pytest.mark.parametrize(
    ("moment", "hours", "days", "expected"),
    [
        pytest.param(at(4, 12, 30), NIGHT, WEEKEND, at(4, 12, 30), id="neither"),
        pytest.param(at(4, 22, 30), NIGHT, frozenset(), at(5, 6), id="past midnight"),
        pytest.param(at(6, 23), NIGHT, WEEKEND, at(9, 6), id="over the weekend"),
        pytest.param(at(7, 12), frozenset(), WEEKEND, at(9, 0), id="days only"),
        pytest.param(at(4, 12, 30), frozenset(range(24)), frozenset(), at(4, 12, 30), id="all hours are nonsense"),
        pytest.param(at(4, 12, 30), frozenset(), frozenset(range(7)), at(4, 12, 30), id="all days are nonsense"),
        pytest.param(
            at(4, 12, 30), frozenset(range(24)) - {12}, frozenset(range(7)) - {2}, at(4, 12, 30), id="only now"
        ),
        pytest.param(at(4, 13), frozenset(range(24)) - {12}, frozenset(range(7)) - {2}, at(11, 12), id="once a week"),
    ],
)
def test_a_check_is_put_off_until_it_is_welcome(
    moment: datetime, hours: frozenset[int], days: frozenset[int], expected: datetime
) -> None:
    assert first_allowed(moment, hours, days) == expected
