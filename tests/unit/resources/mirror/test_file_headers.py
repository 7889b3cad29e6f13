import pytest

from resources.mirror.file_headers import delivery_headers, is_shown_in_place

DIGEST = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    "media_type", ["image/png", "image/x-icon", "audio/mpeg", "video/mp4", "text/plain", "text/plain; charset=utf-8"]
)
def test_images_sound_video_and_text_are_shown(media_type: str) -> None:
    assert is_shown_in_place(media_type)
    assert delivery_headers(media_type)["Content-Type"] == media_type
    assert delivery_headers(media_type)["Content-Disposition"].startswith("inline;")


@pytest.mark.parametrize(
    "media_type",
    [
        *("text/html", "image/svg+xml", "application/xml", "application/xhtml+xml", "application/pdf"),
        *("application/octet-stream", "text/css", "text/javascript", "text/html; charset=utf-8", "font/woff2"),
        *("IMAGE/SVG+XML", "image/svg+xml; charset=utf-8", "text/plainx"),
    ],
)
def test_all_else_is_a_download(media_type: str) -> None:
    assert not is_shown_in_place(media_type)
    assert delivery_headers(media_type)["Content-Disposition"].startswith("attachment;")


def test_a_download_is_named_by_its_digest_and_its_type() -> None:
    assert (
        delivery_headers("text/html", DIGEST)["Content-Disposition"] == 'attachment; filename="0123456789abcdef.html"'
    )
    assert delivery_headers("x/y", DIGEST)["Content-Disposition"] == 'attachment; filename="0123456789abcdef.bin"'


@pytest.mark.parametrize("media_type", ["image/png", "text/html", "application/octet-stream"])
def test_browsers_are_told_to_believe_the_type_and_to_run_nothing(media_type: str) -> None:
    fields = delivery_headers(media_type)

    assert fields["X-Content-Type-Options"] == "nosniff"
    assert fields["Content-Security-Policy"].startswith("sandbox; default-src 'none';")
    assert "script-src" not in fields["Content-Security-Policy"]
    assert "allow-" not in fields["Content-Security-Policy"]
