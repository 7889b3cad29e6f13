"""Settings of thumbnails and delivery that do harm are told before the site starts."""

from typing import Any

import pytest
from django.conf import settings as site

from resources.mirror.checks import check_delivery, check_thumbnails


def ids() -> list[str | None]:
    return [message.id for message in (*check_thumbnails(None), *check_delivery(None))]


def test_the_defaults_are_right() -> None:
    assert ids() == []


@pytest.mark.parametrize(
    ("name", "value", "number"),
    [
        ("THUMBNAIL_SIZES", ["320x240", "64"], "E020"),
        ("THUMBNAIL_SIZES", ["4096x1"], "E020"),
        ("THUMBNAIL_SIZES", ["0x10"], "E020"),
        ("THUMBNAIL_SECONDS", 120, "E021"),
        ("THUMBNAIL_MEMORY_BYTES", 1_000_000, "E022"),
        ("MACHINE", "x" * 101, "E024"),
        ("MACHINE", "a\nb", "E024"),
        ("MIRROR_HOT_BYTES", site.HOT_MAX_BYTES // 9, "W023"),
    ],
)
def test_what_cannot_be_kept_is_told_before_any_request(settings: Any, name: str, value: Any, number: str) -> None:
    setattr(settings, name, value)

    assert ids() == [f"mirroring.{number}"]
