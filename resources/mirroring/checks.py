"""System checks: settings of mirrored files that mean nothing."""

from collections.abc import Iterator, Sequence
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error

from .canonical import parameters, shards
from .errors import RulesError
from .knowing import rules_file


def check_rules(app_configs: Sequence[Any] | None, **_: Any) -> list[CheckMessage]:
    """MIRROR_TRACKING, MIRROR_SHARDS, MIRROR_RULES_FILE: all of it can be read."""
    return [Error(said, id=f"mirroring.{number}") for number, said in _unreadable()]


def _unreadable() -> Iterator[tuple[str, str]]:
    for problem in parameters.names(settings.MIRROR_TRACKING)[1]:
        yield "E001", f"MIRROR_TRACKING: {problem}."
    for problem in shards.chosen(settings.MIRROR_SHARDS)[1]:
        yield "E002", f"MIRROR_SHARDS: {problem}."
    try:
        problems = rules_file.read_file()[1]
    except RulesError as error:
        yield "E003", f"MIRROR_RULES_FILE is not used: {error}."
    else:
        for problem in problems:
            yield "E004", f"MIRROR_RULES_FILE has a rule that is not used: {problem}."
