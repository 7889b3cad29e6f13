"""Ranges of bytes, as far as they are cut here, and header fields of files."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resources.mirror.delivery import ByteRange, select_range
from resources.mirror.public_files import delivery_headers, is_shown_in_place

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


DIGEST = "0123456789abcdef" * 4
SHOWN = ["image/png", "image/x-icon", "audio/mpeg", "video/mp4", "text/plain", "text/plain; charset=utf-8"]
DOWNLOADS = [
    *("text/html", "image/svg+xml", "application/xml", "application/xhtml+xml", "application/pdf"),
    *("application/octet-stream", "text/css", "text/javascript", "text/html; charset=utf-8", "font/woff2"),
    *("IMAGE/SVG+XML", "image/svg+xml; charset=utf-8", "text/plainx"),
]


@pytest.mark.parametrize("media_type", SHOWN + DOWNLOADS)
def test_images_sound_video_and_text_are_shown_all_else_is_a_download_and_nothing_runs(media_type: str) -> None:
    fields = delivery_headers(media_type)
    assert fields["Content-Type"] == media_type
    assert is_shown_in_place(media_type) == (media_type in SHOWN)
    assert fields["Content-Disposition"].startswith("inline;" if media_type in SHOWN else "attachment;")
    assert fields["X-Content-Type-Options"] == "nosniff"
    assert fields["Content-Security-Policy"].startswith("sandbox; default-src 'none';")
    assert "script-src" not in fields["Content-Security-Policy"]
    assert "allow-" not in fields["Content-Security-Policy"]


def test_a_download_is_named_by_its_digest_and_its_type() -> None:
    assert (
        delivery_headers("text/html", DIGEST)["Content-Disposition"] == 'attachment; filename="0123456789abcdef.html"'
    )
    assert delivery_headers("x/y", DIGEST)["Content-Disposition"] == 'attachment; filename="0123456789abcdef.bin"'
