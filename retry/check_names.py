"""System checks by their names: what they import is loaded when they run, and most commands run none."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from django.core import checks
from django.core.checks import CheckMessage
from django.utils.module_loading import import_string


def register_checks(module: str, *names: str, deploy: bool = False) -> None:
    """Registers functions of a module as checks. Does not import it."""
    for name in names:
        checks.register(partial(_run_check, f"{module}.{name}"), deploy=deploy)


def _run_check(path: str, app_configs: Sequence[Any] | None, **given: Any) -> list[CheckMessage]:
    return list(import_string(path)(app_configs, **given))
