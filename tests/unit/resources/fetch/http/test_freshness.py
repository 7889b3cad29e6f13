"""How long an answer stays fresh, by what it says and does not say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from resources.fetching.times import freshness

NOW = 1_795_262_400.0  # Sat, 21 Nov 2026 12:00:00 GMT
DATE = "Sat, 21 Nov 2026 12:00:00 GMT"
TEN_YEARS = 315_360_000.0


def read(*fields: tuple[str, str]) -> freshness.Freshness:
    return freshness.parse(CIMultiDict(fields), NOW)


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


def test_permissions_are_read() -> None:
    found = read(("Cache-Control", "private, must-revalidate, immutable, stale-while-revalidate=5, stale-if-error=x"))
    assert (found.is_private, found.must_revalidate, found.is_immutable) == (True, True, True)
    assert (found.stale_while_revalidate_seconds, found.stale_if_error_seconds) == (5, None)


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


@given(st.text(max_size=200), st.text(max_size=40), st.text(max_size=20))
def test_no_field_raises_or_makes_a_lifetime_negative(control: str, expires: str, age: str) -> None:
    found = read(("Cache-Control", control), ("Expires", expires), ("Age", age))
    assert found.lifetime_seconds is None or 0 <= found.lifetime_seconds <= TEN_YEARS
    assert found.age_seconds >= 0
