"""Moments and sizes in words."""

from datetime import datetime, timedelta

import pytest

from resources import words
from tests.resources.mirroring.rows import NOW


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
    assert words.size(number) == said


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
    assert words.ago(at, NOW) == said
