"""Lines of the traffic log, as nginx writes them and malformed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.traffic import counter

GOOD = b"1795262400.123 200 HIT 4312 0.000 GET /tiles/jams/1/0/0.png"

GARBAGE = {
    "empty": b"",
    "half a line": GOOD[:30],
    "another format": b'127.0.0.1 - - [21/Nov/2026:12:00:00 +0000] "GET /tiles/a HTTP/1.1" 200 1',
    "zeros of a machine that failed": b"\0" * 200,
    "two lines that a crash put together": GOOD[:40] + b"\0" + GOOD,
    "no number": GOOD.replace(b"200", b"2o0"),
    "no time": GOOD.replace(b"1795262400.123", b"-"),
    "infinite time": GOOD.replace(b"1795262400.123", b"inf"),
    "a great many digits": b"9" * 100_000 + GOOD,
    "no address": GOOD.replace(b"/tiles/jams/1/0/0.png", b"-"),
    "bytes that nginx escapes": GOOD + b"\xff",
    "another line's end": GOOD + b"\r",
}


def test_a_line_has_a_time_and_what_tells_the_answer() -> None:
    assert counter.parse_lines(GOOD) == [(b"1795262400.123", b"200", b"HIT", b"GET", b"", b"/tiles/jams/1/0/0.png")]


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        (GOOD.replace(b"HIT", b"-"), (b"-", b"GET", b"", b"/tiles/jams/1/0/0.png")),
        (GOOD + b" 200 HIT", (b"HIT", b"GET", b"", b"/tiles/jams/1/0/0.png 200 HIT")),
        (GOOD.replace(b"GET ", b"GET 012345 "), (b"HIT", b"GET", b"012345", b"/tiles/jams/1/0/0.png")),
    ],
    ids=["a dash stands for no cache", "blanks of an address belong to it", "a number stands for the reader"],
)
def test_a_line_is_read_with_its_peculiarities(line: bytes, fields: tuple[bytes, ...]) -> None:
    [found] = counter.parse_lines(line)
    assert found[2:] == fields


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE)
def test_garbage_is_left_out_and_the_lines_around_it_are_not(garbage: bytes) -> None:
    assert counter.parse_lines(garbage) == []
    assert counter.parse_lines(b"\n".join([GOOD, garbage, GOOD])) == counter.parse_lines(GOOD) * 2


@given(st.binary(max_size=300))
def test_no_bytes_are_too_odd(data: bytes) -> None:
    assert len(counter.parse_lines(data)) <= data.count(b"\n") + 1


@pytest.mark.parametrize(
    ("status", "cache_status", "method", "name", "wanted"),
    [
        (b"200", b"HIT", b"GET", "hot", True),
        (b"200", b"STALE", b"GET", "hot", True),
        (b"304", b"UPDATING", b"GET", "hot", True),
        (b"206", b"HIT", b"GET", "hot", True),
        (b"200", b"HIT", b"HEAD", "hot", True),
        (b"206", b"FILE", b"GET", "hot", True),
        (b"200", b"MISS", b"GET", "passed", True),
        (b"304", b"EXPIRED", b"GET", "passed", True),
        (b"200", b"-", b"GET", "passed", True),
        (b"302", b"MISS", b"GET", "waiting", True),
        (b"202", b"-", b"GET", "waiting", True),
        (b"404", b"HIT", b"GET", "missing", False),
        (b"503", b"-", b"GET", "busy", False),
        (b"429", b"-", b"GET", "busy", False),
        (b"502", b"-", b"GET", "failed", False),
        (b"200", b"-", b"OPTIONS", "other", False),
        (b"204", b"MISS", b"GET", "other", False),
        (b"405", b"-", b"POST", "other", False),
        (b"499", b"-", b"GET", "other", False),
        (b"000", b"-", b"GET", "other", False),
    ],
)
def test_answers_have_a_name_and_tell_whether_content_was_wanted(
    status: bytes, cache_status: bytes, method: bytes, name: str, wanted: bool
) -> None:
    assert counter.front_answer(status, cache_status, method) == counter.FrontAnswer(name, wanted)


@pytest.mark.parametrize(
    ("escaped", "address"),
    [
        (b"/tiles/a", "/tiles/a"),
        (rb"/prim\xC3\xA9/7", "/primé/7"),
        (rb"/a\x22b\x5Cc", '/a"b\\c'),
        (rb"/a\x0Ab", "/a\nb"),
        (rb"/a\xFF", None),
    ],
)
def test_addresses_are_those_that_were_asked_for(escaped: bytes, address: str | None) -> None:
    assert counter.unescape_address(escaped) == address
