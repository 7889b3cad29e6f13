"""System checks: settings of mirrored files that contradict each other or cannot be used."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from django.conf import settings
from django.core.checks import (
    CheckMessage,
    Error,
    Warning,  # noqa: A004  as Django calls it
)

from . import rules_file
from .canonical import clearurls, rules
from .errors import RulesError


def check_rules(app_configs: Sequence[Any] | None, **_: Any) -> list[CheckMessage]:
    """Checks that MIRROR_TRACKING, MIRROR_SHARDS and MIRROR_RULES_FILE can be read."""
    return [Error(text, id=f"mirroring.{number}") for number, text in _rule_problems()]


def _rule_problems() -> Iterator[tuple[str, str]]:
    for problem in clearurls.parse_tracking_names(settings.MIRROR_TRACKING)[1]:
        yield "E001", f"MIRROR_TRACKING: {problem}."
    for problem in rules.choose_shards(settings.MIRROR_SHARDS)[1]:
        yield "E002", f"MIRROR_SHARDS: {problem}."
    try:
        problems = rules_file.read_rules_file()[1]
    except RulesError as error:
        yield "E003", f"MIRROR_RULES_FILE is not used: {error}."
    else:
        for problem in problems:
            yield "E004", f"MIRROR_RULES_FILE has a rule that is not used: {problem}."


SIZE_PATTERN = re.compile(r"([1-9][0-9]{0,4})x([1-9][0-9]{0,4})", re.ASCII)
MIN_HOT_FILES = 10
MACHINE_PATTERN = re.compile(r"[A-Za-z0-9._-]{1,100}", re.ASCII)
MIN_PAINTER_BYTES = 128 * 1024 * 1024
"""A painter takes some 60 MB of address space before it has read an image."""


def check_thumbnails(app_configs: Sequence[Any] | None, **_: Any) -> list[CheckMessage]:
    """Checks that THUMBNAIL_SIZES can be requested, and that limits of time and memory can be kept."""
    found: list[CheckMessage] = []
    if bad := [size for size in settings.THUMBNAIL_SIZES if not _is_thumbnail_size(size)]:
        detail = f"THUMBNAIL_SIZES has sizes as 320x240, up to THUMBNAIL_MAX_SIDE; not {', '.join(bad)}."
        found.append(Error(detail, id="mirroring.E020"))
    if settings.THUMBNAIL_SECONDS >= settings.RETRY_MAX_PREPARE_SECONDS:
        found.append(Error("THUMBNAIL_SECONDS must be less than RETRY_MAX_PREPARE_SECONDS.", id="mirroring.E021"))
    if settings.THUMBNAIL_MEMORY_BYTES < MIN_PAINTER_BYTES:
        detail = f"THUMBNAIL_MEMORY_BYTES must be at least {MIN_PAINTER_BYTES:,}."
        found.append(Error(detail, id="mirroring.E022"))
    return found


def check_delivery(app_configs: Sequence[Any] | None, **_: Any) -> list[CheckMessage]:
    """Checks that files leave room in nginx' hot cache, and that other machines can name this one."""
    found: list[CheckMessage] = []
    if settings.MIRROR_HOT_BYTES * MIN_HOT_FILES > settings.HOT_MAX_BYTES:
        detail = (
            f"{MIN_HOT_FILES} files of MIRROR_HOT_BYTES fill the hot cache (HOT_MAX_BYTES): tiles have no room in it."
        )
        found.append(Warning(detail, id="mirroring.W023"))
    if not MACHINE_PATTERN.fullmatch(settings.MACHINE):
        detail = "MACHINE must have 1 to 100 letters, digits, dots, hyphens and underscores."
        found.append(Error(detail, id="mirroring.E024"))
    return found


def _is_thumbnail_size(text: str) -> bool:
    match = SIZE_PATTERN.fullmatch(text)
    return match is not None and max(int(match[1]), int(match[2])) <= settings.THUMBNAIL_MAX_SIDE
