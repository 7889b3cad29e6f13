from typing import Any

import pytest

from resources.mirroring.serving.checks import check_thumbnails


def test_the_defaults_are_right() -> None:
    assert not check_thumbnails(None)


@pytest.mark.parametrize(
    ("name", "value", "number"),
    [
        ("THUMBNAIL_SIZES", ["320x240", "64"], "E020"),
        ("THUMBNAIL_SIZES", ["4096x1"], "E020"),
        ("THUMBNAIL_SIZES", ["0x10"], "E020"),
        ("THUMBNAIL_SECONDS", 120, "E021"),
        ("THUMBNAIL_MEMORY_BYTES", 1_000_000, "E022"),
    ],
)
def test_what_cannot_be_kept_is_told_before_the_first_request(
    settings: Any, name: str, value: Any, number: str
) -> None:
    setattr(settings, name, value)

    assert [message.id for message in check_thumbnails(None)] == [f"mirroring.{number}"]
