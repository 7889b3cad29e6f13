"""Moments and sizes in words."""

from datetime import datetime, timedelta, timezone

import pytest

from resources import humanize
from tests.support.mirror_rows import NOW


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1500, "1.5 KB"),
        (145_000_000, "145 MB"),
        (2e13, "20.0 TB"),
        (9e15, "9000 TB"),
    ],
)
def test_sizes_are_told_by_two_or_three_figures(number: float, said: str) -> None:
    assert humanize.format_size(number) == said


@pytest.mark.parametrize(
    ("at", "said"),
    [
        (None, "never"),
        (NOW - timedelta(minutes=125), "2 h ago"),
        (NOW + timedelta(seconds=90), "in 1 min"),
        (NOW - timedelta(days=40), "40 d ago"),
    ],
)
def test_moments_are_told_by_their_largest_unit(at: datetime | None, said: str) -> None:
    assert humanize.format_ago(at, NOW) == said


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0.0 s"),
        (0.34, "0.3 s"),
        (59, "59 s"),
        (60, "1 min"),
        (61, "1 min 1 s"),
        (7260, "2 h 1 min"),
        (90_000, "1 d 1 h"),
    ],
)
def test_durations_have_two_units_at_the_most(seconds: float, text: str) -> None:
    assert humanize.format_duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0 seconds"),
        (0.5, "0.5 seconds"),
        (1, "1 second"),
        (60, "1 minute"),
        (90, "1 minute 30 seconds"),
        (3_600, "1 hour"),
        (86_400, "1 day"),
        (90_061, "1 day 1 hour"),
        (31_536_000, "365 days"),
    ],
)
def test_spelt_durations_have_two_units_at_the_most(seconds: float, said: str) -> None:
    assert humanize.spell_duration(seconds) == said


def test_moments_are_said_in_utc() -> None:
    there = datetime(2026, 11, 3, 1, 2, 3, tzinfo=timezone(timedelta(hours=2)))
    assert humanize.format_moment(there, has_seconds=True) == "2 November 2026, 23:02:03 UTC"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.02, "20 ms"), (0.25, "0.2 s"), (38, "38 s"), (720, "12 min"), (12_240, "3.4 h"), (181_440, "2.1 days")],
)
def test_roughly_known_durations_have_one_unit(seconds: float, said: str) -> None:
    assert humanize.estimate_duration(seconds) == said
