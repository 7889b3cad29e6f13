"""Dates in header fields: the three forms, what servers make of them, and what is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.fetching.times import http_dates

NOW = 1_795_262_400.0  # 21 November 2026, 12:00 UTC
MOMENT = 784_111_777.0

SAME_MOMENT = {
    "preferred": "Sun, 06 Nov 1994 08:49:37 GMT",
    "RFC 850": "Sunday, 06-Nov-94 08:49:37 GMT",
    "asctime": "Sun Nov  6 08:49:37 1994",
    "no zone": "Sun, 06 Nov 1994 08:49:37",
    "UTC": "Sun, 06 Nov 1994 08:49:37 UTC",
    "an offset of nothing": "Sun, 06 Nov 1994 08:49:37 +0000",
    "the wrong day of the week": "Mon, 06 Nov 1994 08:49:37 GMT",
}
NO_DATES = {
    "empty": "",
    "a number": "784111777",
    "another zone": "Sun, 06 Nov 1994 08:49:37 PST",
    "an offset": "Sun, 06 Nov 1994 08:49:37 +0100",
    "small letters": "sun, 06 nov 1994 08:49:37 gmt",
    "ISO 8601": "1994-11-06T08:49:37Z",
    "one digit": "Sun, 6 Nov 1994 08:49:37 GMT",
    "Arabic digits": "Sun, ٠٦ Nov 1994 08:49:37 GMT",
    "no such day": "Sun, 31 Feb 1994 08:49:37 GMT",
    "no such hour": "Sun, 06 Nov 1994 24:49:37 GMT",
    "year 0": "Sun, 06 Nov 0000 08:49:37 GMT",
    "something behind it": "Sun, 06 Nov 1994 08:49:37 GMT; x",
    "a line's end": "Sun, 06 Nov 1994 08:49:37 GMT\n",
    "two": "Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:37 GMT",
}


@pytest.mark.parametrize("text", SAME_MOMENT.values(), ids=SAME_MOMENT)
def test_a_date_is_read_in_every_form_that_servers_send(text: str) -> None:
    assert http_dates.parse(text, NOW) == MOMENT


@pytest.mark.parametrize("text", NO_DATES.values(), ids=NO_DATES)
def test_what_is_no_date_is_none(text: str) -> None:
    assert http_dates.parse(text, NOW) is None


@pytest.mark.parametrize(("year", "full"), [("94", 1994), ("26", 2026), ("76", 2076), ("77", 1977)])
def test_two_digits_of_a_year_are_at_most_fifty_years_ahead(year: str, full: int) -> None:
    short = http_dates.parse(f"Sunday, 06-Nov-{year} 08:49:37 GMT", NOW)
    assert short == http_dates.parse(f"Sun, 06 Nov {full} 08:49:37 GMT", NOW)


def test_a_leap_second_is_the_next_one() -> None:
    leap = http_dates.parse("Sat, 31 Dec 2016 23:59:60 GMT", NOW)
    assert leap == http_dates.parse("Sun, 01 Jan 2017 00:00:00 GMT", NOW)


@given(st.text(max_size=40))
def test_no_text_raises(text: str) -> None:
    http_dates.parse(text, NOW)
