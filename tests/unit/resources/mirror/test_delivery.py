"""Ranges of bytes, as far as they are cut here."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resources.mirror.delivery import ByteRange, select_range

ETAG = '"e"'
ALL = ByteRange(0, 10, 10)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("bytes=2-4", ByteRange(2, 5, 10)),
        ("Bytes=2-4", ByteRange(2, 5, 10)),
        ("bytes=7-", ByteRange(7, 10, 10)),
        ("bytes=7-99", ByteRange(7, 10, 10)),
        ("bytes=-3", ByteRange(7, 10, 10)),
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
def test_a_range_is_what_the_client_gets(header: str, expected: ByteRange | None) -> None:
    assert select_range(header, "", ETAG, 10) == expected


def test_a_range_of_other_content_is_all_of_it() -> None:
    assert select_range("bytes=2-4", ETAG, ETAG, 10) == ByteRange(2, 5, 10)
    assert select_range("bytes=2-4", '"other"', ETAG, 10) == ALL
    assert select_range("bytes=2-4", f"W/{ETAG}", ETAG, 10) == ALL


@settings(max_examples=50)
@given(st.from_regex(r"bytes=[0-9]{0,3}-[0-9]{0,3}", fullmatch=True), st.integers(1, 200))
def test_a_span_lies_within_the_file(header: str, size: int) -> None:
    found = select_range(header, "", ETAG, size)
    assert found is None or 0 <= found.start < found.end <= size


def test_an_empty_file_has_no_parts() -> None:
    assert select_range("", "", ETAG, 0) == ByteRange(0, 0, 0)
    assert select_range("bytes=0-", "", ETAG, 0) is None
