"""How long a fetch is expected to take."""

import pytest

from feeds.scheduling.expecting import UNKNOWN_SECONDS, Expectations, mean_of_last

KNOWN = Expectations({"a.example": 2}, otherwise=3)


def test_the_last_twenty_timings_count() -> None:
    assert mean_of_last([1000.0] * 5 + [2.0] * 10 + [4.0] * 10) == 3


def test_a_feed_without_timings_has_no_mean() -> None:
    assert mean_of_last([]) is None


@pytest.mark.parametrize(
    ("host", "own", "expected"),
    [("a.example", 7, 7), ("a.example", 0, 0), ("a.example", None, 2), ("new.example", None, 3)],
)
def test_its_own_mean_counts_then_its_hosts_then_the_median_of_all(
    host: str, own: float | None, expected: float
) -> None:
    assert KNOWN.seconds(host, own) == expected


def test_with_nothing_known_all_are_expected_alike() -> None:
    assert Expectations({}).seconds("a.example", None) == UNKNOWN_SECONDS
