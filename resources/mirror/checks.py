"""System checks: settings of files and thumbnails that mean nothing, or do harm."""

import re
from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning  # noqa: A004  as Django calls it

from .. import conf

SIZE = re.compile(r"([1-9][0-9]{0,4})x([1-9][0-9]{0,4})", re.ASCII)
HOT_SHARE = 10
MACHINE_CHARACTERS = 100
LEAST_MEMORY_BYTES = 128 * 1024 * 1024
"""A painter takes some 60 MB of address space before it has read an image."""


def check_thumbnails(app_configs: Sequence[Any] | None, **_: Any) -> list[CheckMessage]:
    """THUMBNAIL_SIZES can be asked for; limits of time and memory can be kept."""
    found: list[CheckMessage] = []
    if bad := [size for size in settings.THUMBNAIL_SIZES if not _is_size(size)]:
        detail = f"THUMBNAIL_SIZES has sizes as 320x240, up to THUMBNAIL_MAX_SIDE; not {', '.join(bad)}."
        found.append(Error(detail, id="mirroring.E020"))
    if conf.thumbnail_seconds() >= settings.RETRY_MAX_PREPARE_SECONDS:
        found.append(Error("THUMBNAIL_SECONDS must be less than RETRY_MAX_PREPARE_SECONDS.", id="mirroring.E021"))
    if conf.thumbnail_memory() < LEAST_MEMORY_BYTES:
        detail = f"THUMBNAIL_MEMORY_BYTES must be at least {LEAST_MEMORY_BYTES:,}."
        found.append(Error(detail, id="mirroring.E022"))
    return found


def check_delivery(app_configs: Sequence[Any] | None, **_: Any) -> list[CheckMessage]:
    """What nginx keeps of files leaves room for anything else; other machines can name this one."""
    found: list[CheckMessage] = []
    if conf.hot_bytes() * HOT_SHARE > settings.HOT_MAX_BYTES:
        detail = f"{HOT_SHARE} files of MIRROR_HOT_BYTES fill the hot cache (HOT_MAX_BYTES): tiles have no room in it."
        found.append(Warning(detail, id="mirroring.W023"))
    if len(conf.machine()) > MACHINE_CHARACTERS or not conf.machine().isprintable():
        detail = f"MACHINE must be printable and have at most {MACHINE_CHARACTERS} characters."
        found.append(Error(detail, id="mirroring.E024"))
    return found


def _is_size(text: str) -> bool:
    match = SIZE.fullmatch(text)
    return match is not None and max(int(match[1]), int(match[2])) <= conf.thumbnail_side()
