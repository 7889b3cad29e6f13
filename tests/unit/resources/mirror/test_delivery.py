"""Ranges of bytes, as far as they are cut here."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.mirroring.serving.ranges import Span, span

ETAG = '"e"'
ALL = Span(0, 10, 10)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("bytes=2-4", Span(2, 5, 10)),
        ("Bytes=2-4", Span(2, 5, 10)),
        ("bytes=7-", Span(7, 10, 10)),
        ("bytes=7-99", Span(7, 10, 10)),
        ("bytes=-3", Span(7, 10, 10)),
        ("bytes=-30", ALL),
        ("bytes=10-", None),
        ("bytes=10-12", None),
        ("bytes=-0", None),
        ("bytes=4-2", ALL),
        ("bytes=-", ALL),
        ("bytes=1-2,4-5", ALL),
        ("bytes=a-b", ALL),
        ("bytes=٣-٤", ALL),
        ("items=1-2", ALL),
        ("", ALL),
    ],
)
def test_a_range_is_what_the_client_gets(header: str, expected: Span | None) -> None:
    assert span(header, "", ETAG, 10) == expected


def test_a_range_of_other_content_is_all_of_it() -> None:
    assert span("bytes=2-4", ETAG, ETAG, 10) == Span(2, 5, 10)
    assert span("bytes=2-4", '"other"', ETAG, 10) == ALL
    assert span("bytes=2-4", f"W/{ETAG}", ETAG, 10) == ALL


@given(st.from_regex(r"bytes=[0-9]{0,3}-[0-9]{0,3}", fullmatch=True), st.integers(1, 200))
def test_a_span_lies_within_the_file(header: str, size: int) -> None:
    found = span(header, "", ETAG, size)
    assert found is None or 0 <= found.start < found.end <= size


def test_an_empty_file_has_no_parts() -> None:
    assert span("", "", ETAG, 0) == Span(0, 0, 0)
    assert span("bytes=0-", "", ETAG, 0) is None
