import pytest

from resources.mirror.file_headers import delivery_headers, is_shown_in_place

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
