"""The freshness of answers, Retry-After in right and wrong forms, and dates in header fields."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from multidict import CIMultiDict

from resources.fetch.http import freshness

NOW = 1_795_262_400.0  # Sat, 21 Nov 2026 12:00:00 GMT
DATE = "Sat, 21 Nov 2026 12:00:00 GMT"
TEN_YEARS = 315_360_000.0


def read(*fields: tuple[str, str]) -> freshness.Freshness:
    return freshness.parse_freshness(CIMultiDict(fields), NOW)


LIFETIMES: dict[str, tuple[list[tuple[str, str]], float | None]] = {
    "nothing said": ([], None),
    "max-age": ([("Cache-Control", "max-age=60")], 60),
    "s-maxage is for us": ([("Cache-Control", "max-age=60, s-maxage=10")], 10),
    "max-age before Expires": ([("Cache-Control", "max-age=60"), ("Expires", DATE)], 60),
    "Expires": ([("Date", DATE), ("Expires", "Sat, 21 Nov 2026 12:01:00 GMT")], 60),
    "Expires without Date": ([("Expires", "Sat, 21 Nov 2026 12:01:00 GMT")], 60),
    "Expires in the past": ([("Date", DATE), ("Expires", "Sat, 21 Nov 2026 11:00:00 GMT")], 0),
    "Expires of 0": ([("Expires", "0")], 0),
    "Expires of -1": ([("Expires", "-1")], 0),
    "two Expires": ([("Expires", "Sat, 21 Nov 2026 12:01:00 GMT")] * 2, 0),
    "in capitals": ([("CACHE-CONTROL", "Max-Age=60")], 60),
    "quoted, though it should not be": ([("Cache-Control", 'max-age="60"')], 60),
    "two lines": ([("Cache-Control", "public"), ("Cache-Control", "max-age=60")], 60),
    "two that differ": ([("Cache-Control", "max-age=60, max-age=30")], 30),
    "two, one of them nonsense": ([("Cache-Control", "max-age=60, max-age=x")], 0),
    "negative": ([("Cache-Control", "max-age=-1")], 0),
    "a fraction": ([("Cache-Control", "max-age=1.5")], 0),
    "no number": ([("Cache-Control", "max-age")], 0),
    "Arabic digits": ([("Cache-Control", "max-age=٦٠")], 0),
    "20 digits": ([("Cache-Control", f"max-age={'9' * 20}")], TEN_YEARS),
    "thousands of digits": ([("Cache-Control", f"max-age={'9' * 3000}")], TEN_YEARS),
    "inside a quoted string": ([("Cache-Control", 'x="max-age=60", max-age=10')], 10),
    "semicolons": ([("Cache-Control", "public; max-age=60")], None),
    "empty members": ([("Cache-Control", ",, max-age=60 ,")], 60),
}


@pytest.mark.parametrize(("fields", "expected"), LIFETIMES.values(), ids=LIFETIMES)
def test_the_lifetime_is_what_the_fields_say(fields: list[tuple[str, str]], expected: float | None) -> None:
    assert read(*fields).lifetime_seconds == expected


AGES = {
    "nothing said": ([], 0.0),
    "Age": ([("Age", "30")], 30.0),
    "Date": ([("Date", "Sat, 21 Nov 2026 11:59:00 GMT")], 60.0),
    "the greater of both": ([("Date", "Sat, 21 Nov 2026 11:59:00 GMT"), ("Age", "90")], 90.0),
    "a clock that is ahead": ([("Date", "Sat, 21 Nov 2026 13:00:00 GMT")], 0.0),
    "nonsense": ([("Age", "-5")], 0.0),
    "the first of several": ([("Age", "30, 60")], 30.0),
}


@pytest.mark.parametrize(("fields", "expected"), AGES.values(), ids=AGES)
def test_the_age_is_the_greater_of_what_is_said_and_what_the_dates_show(
    fields: list[tuple[str, str]], expected: float
) -> None:
    assert read(*fields).age_seconds == expected


def test_time_spent_in_other_caches_is_taken_off() -> None:
    assert read(("Cache-Control", "max-age=60"), ("Age", "45")).fresh_until == NOW + 15


@pytest.mark.parametrize("directive", ["no-store", "no-cache"])
def test_what_must_be_asked_for_each_time_is_stale_at_once(directive: str) -> None:
    assert read(("Cache-Control", f"{directive}, max-age=60")).fresh_until == NOW


def test_no_cache_for_some_fields_is_not_for_the_answer() -> None:
    assert read(("Cache-Control", 'no-cache="Set-Cookie", max-age=60')).fresh_until == NOW + 60


BOUNDS = {"least": 60.0, "most": 3600.0, "otherwise": 600.0}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ([("Cache-Control", "max-age=100")], 100),
        ([("Cache-Control", "max-age=1")], 60),
        ([("Cache-Control", "no-store")], 60),
        ([("Cache-Control", "max-age=99999")], 3600),
        ([], 600),
        ([("Last-Modified", "Sat, 21 Nov 2026 11:30:00 GMT")], 180),
        ([("Last-Modified", "Sat, 21 Nov 2026 13:00:00 GMT")], 600),
    ],
)
def test_it_is_served_within_the_bounds_of_who_serves_it(fields: list[tuple[str, str]], expected: float) -> None:
    assert read(*fields).fresh_seconds(NOW, **BOUNDS) == pytest.approx(expected)


@settings(max_examples=50)
@given(st.text(max_size=100), st.text(max_size=40), st.text(max_size=20))
def test_no_field_raises_or_makes_a_lifetime_negative(control: str, expires: str, age: str) -> None:
    found = read(("Cache-Control", control), ("Expires", expires), ("Age", age))
    assert found.lifetime_seconds is None or 0 <= found.lifetime_seconds <= TEN_YEARS
    assert found.age_seconds >= 0


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
    "a past date": (["Sat, 21 Nov 2026 11:00:00 GMT"], 0.0),
    "a date in a year": (["Sun, 21 Nov 2027 12:00:00 GMT"], DAY),
    "two waits in one line": (["120, 60"], 120.0),
    "the longer one behind": (["60,120"], 120.0),
    "two lines": (["60", "120"], 120.0),
    "a line of nonsense beside one that is right": (["soon", "60"], 60.0),
    "two lines, a date and seconds": (["Sat, 21 Nov 2026 12:01:00 GMT", "10"], 60.0),
}
NONSENSE: list[list[str]] = [
    *([], [""], ["-1"], ["-86400"], ["+60"], ["1e3"], ["٦٠"], ["６０"], ["⁶⁰"], ["1_000"], ["0x3c"], ["inf"]),
    *(["nan"], ["60s"], ["in a minute"], ['"60"'], ["60; x=1"], [",60"], ["60, soon"], ["60,"], ["."], [".5"]),
    *(["Sat, 21 Nov 2026 12:01:00 PST"], ["9" * 500], ["60\n"], ["60\0"]),
]


@pytest.mark.parametrize(("values", "expected"), WAITS.values(), ids=WAITS)
def test_a_wait_is_read_and_capped(values: list[str], expected: float) -> None:
    assert freshness.parse_retry_after(values, NOW) == expected


@pytest.mark.parametrize("values", NONSENSE, ids=str)
def test_nonsense_is_as_good_as_nothing_said(values: list[str]) -> None:
    assert freshness.parse_retry_after(values, NOW) is None


def test_a_date_is_compared_with_the_servers_own_clock() -> None:
    slow_clock = NOW - 3600
    assert freshness.parse_retry_after(["Sat, 21 Nov 2026 11:01:00 GMT"], NOW, date=slow_clock) == 60.0


@settings(max_examples=50)
@given(st.lists(st.text(max_size=60), max_size=3))
def test_whatever_is_said_the_wait_is_none_or_within_a_day(values: list[str]) -> None:
    wait = freshness.parse_retry_after(values, NOW)
    assert wait is None or 0 <= wait <= DAY


MOMENT = 784_111_777.0

SAME_MOMENT = [
    *("Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"),
    *("Sun, 06 Nov 1994 08:49:37", "Sun, 06 Nov 1994 08:49:37 UTC", "Sun, 06 Nov 1994 08:49:37 +0000"),
    "Mon, 06 Nov 1994 08:49:37 GMT",
]
NO_DATES = [
    *("", "784111777", "Sun, 06 Nov 1994 08:49:37 PST", "Sun, 06 Nov 1994 08:49:37 +0100"),
    *("sun, 06 nov 1994 08:49:37 gmt", "1994-11-06T08:49:37Z", "Sun, 6 Nov 1994 08:49:37 GMT"),
    *("Sun, ٠٦ Nov 1994 08:49:37 GMT", "Sun, 31 Feb 1994 08:49:37 GMT", "Sun, 06 Nov 1994 24:49:37 GMT"),
    *("Sun, 06 Nov 0000 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 GMT; x", "Sun, 06 Nov 1994 08:49:37 GMT\n"),
    "Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:37 GMT",
]


@pytest.mark.parametrize("text", SAME_MOMENT)
def test_a_date_is_read_in_every_form_that_servers_send(text: str) -> None:
    assert freshness.parse_http_date(text, NOW) == MOMENT


@pytest.mark.parametrize("text", NO_DATES)
def test_what_is_no_date_is_none(text: str) -> None:
    assert freshness.parse_http_date(text, NOW) is None


@pytest.mark.parametrize(("year", "full"), [("94", 1994), ("26", 2026), ("76", 2076), ("77", 1977)])
def test_two_digits_of_a_year_are_at_most_fifty_years_ahead(year: str, full: int) -> None:
    short = freshness.parse_http_date(f"Sunday, 06-Nov-{year} 08:49:37 GMT", NOW)
    assert short == freshness.parse_http_date(f"Sun, 06 Nov {full} 08:49:37 GMT", NOW)


def test_a_leap_second_is_the_next_one() -> None:
    leap = freshness.parse_http_date("Sat, 31 Dec 2016 23:59:60 GMT", NOW)
    assert leap == freshness.parse_http_date("Sun, 01 Jan 2017 00:00:00 GMT", NOW)
