"""Retry-After: as it should be, and as it is in the wild."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.fetching.times import retry_after

NOW = 1_795_262_400.0  # Sat, 21 Nov 2026 12:00:00 GMT
DAY = 86_400.0

WAITS = {
    "seconds": (["120"], 120.0),
    "none": (["0"], 0.0),
    "leading zeros": (["0010"], 10.0),
    "space around": ([" 120\t"], 120.0),
    "a fraction": (["1.5"], 1.5),
    "a day": (["86400"], DAY),
    "a second more than a day": (["86401"], DAY),
    "a year": (["31536000"], DAY),
    "a moment in Unix seconds": (["1795262460"], DAY),
    "20 digits": (["99999999999999999999"], DAY),
    "400 digits": (["9" * 400], DAY),
    "a date": (["Sat, 21 Nov 2026 12:01:00 GMT"], 60.0),
    "a date without a zone": (["Sat, 21 Nov 2026 12:01:00"], 60.0),
    "a date of RFC 850": (["Saturday, 21-Nov-26 12:01:00 GMT"], 60.0),
    "a date of asctime": (["Sat Nov 21 12:01:00 2026"], 60.0),
    "a past date": (["Sat, 21 Nov 2026 11:00:00 GMT"], 0.0),
    "a date in a year": (["Sun, 21 Nov 2027 12:00:00 GMT"], DAY),
    "two waits in one line": (["120, 60"], 120.0),
    "the longer one behind": (["60,120"], 120.0),
    "two lines": (["60", "120"], 120.0),
    "a line of nonsense beside one that is right": (["soon", "60"], 60.0),
    "two lines, a date and seconds": (["Sat, 21 Nov 2026 12:01:00 GMT", "10"], 60.0),
}
NONSENSE = {
    "no line": [],
    "empty": [""],
    "negative": ["-1"],
    "negative, large": ["-86400"],
    "a sign": ["+60"],
    "an exponent": ["1e3"],
    "Arabic digits": ["٦٠"],
    "wide digits": ["６０"],
    "superscript digits": ["⁶⁰"],
    "underscores": ["1_000"],
    "hexadecimals": ["0x3c"],
    "infinity": ["inf"],
    "not a number": ["nan"],
    "a unit": ["60s"],
    "words": ["in a minute"],
    "quotes": ['"60"'],
    "a parameter": ["60; x=1"],
    "nothing before a comma": [",60"],
    "half a list": ["60, soon"],
    "a decimal comma would be a list, this is none": ["60,"],
    "a point alone": ["."],
    "no digit before the point": [".5"],
    "another zone": ["Sat, 21 Nov 2026 12:01:00 PST"],
    "ISO 8601": ["2026-11-21T12:01:00Z"],
    "no such day": ["Sat, 31 Feb 2026 12:01:00 GMT"],
    "500 digits": ["9" * 500],
    "a line's end": ["60\n"],
    "zero bytes": ["60\0"],
}


@pytest.mark.parametrize(("values", "expected"), WAITS.values(), ids=WAITS)
def test_a_wait_is_read_and_capped(values: list[str], expected: float) -> None:
    assert retry_after.seconds(values, NOW) == expected


@pytest.mark.parametrize("values", NONSENSE.values(), ids=NONSENSE)
def test_nonsense_is_as_good_as_nothing_said(values: list[str]) -> None:
    assert retry_after.seconds(values, NOW) is None


def test_a_date_is_compared_with_the_servers_own_clock() -> None:
    slow_clock = NOW - 3600
    assert retry_after.seconds(["Sat, 21 Nov 2026 11:01:00 GMT"], NOW, date=slow_clock) == 60.0


def test_the_cap_is_the_callers_to_set() -> None:
    assert retry_after.seconds(["120"], NOW, most=30.0) == 30.0


@given(st.lists(st.text(max_size=60), max_size=3))
def test_whatever_is_said_the_wait_is_none_or_within_a_day(values: list[str]) -> None:
    wait = retry_after.seconds(values, NOW)
    assert wait is None or 0 <= wait <= DAY
