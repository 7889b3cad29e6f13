"""Settings of the delivery of files that do harm are told before the site starts."""

from typing import Any

from resources.mirroring.serving.checks import check_delivery


def ids() -> list[str | None]:
    return [one.id for one in check_delivery(None)]


def test_the_defaults_are_right() -> None:
    assert ids() == []


def test_files_that_would_fill_the_hot_cache(settings: Any) -> None:
    settings.MIRROR_HOT_BYTES = settings.HOT_MAX_BYTES // 9
    assert ids() == ["mirroring.W023"]


def test_a_name_that_the_rows_cannot_hold(settings: Any) -> None:
    settings.MACHINE = "x" * 101
    assert ids() == ["mirroring.E024"]
    settings.MACHINE = "a\nb"
    assert ids() == ["mirroring.E024"]
