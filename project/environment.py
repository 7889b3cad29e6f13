"""Reads settings from the environment, strictly: an error names the variable, its value and what belongs there."""

import re
from collections.abc import Sequence
from typing import Any

import environ
from django.core.exceptions import ImproperlyConfigured

TRUE = frozenset({"1", "true", "yes", "on"})
FALSE = frozenset({"0", "false", "no", "off"})

_WHOLE = re.compile(r"[0-9]{1,18}", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,15}(\.[0-9]{1,15})?", re.ASCII)


class Environment:
    """The environment's variables by kind. One that is not set, or empty, has its default."""

    def __init__(self) -> None:
        self._read = environ.Env()

    def str(self, name: str, default: str) -> str:
        return str(self._read.str(name, default))

    def list(self, name: "str", default: "Sequence[str]" = ()) -> "list[str]":
        return list(self._read.list(name, default=list(default)))

    def db_url(self, name: "str", default: "str") -> "dict[str, Any]":
        return dict(self._read.db_url(name, default))

    def int(self, name: "str", default: "int", *, least: "int" = 1) -> "int":
        """A whole number. Raises ImproperlyConfigured."""
        text = self.str(name, "")
        if text and not (_WHOLE.fullmatch(text) and int(text) >= least):
            raise ImproperlyConfigured(f"{name} is {text!r}; it must be a whole number of at least {least}.")
        return int(text) if text else default

    def float(self, name: "str", default: "float") -> "float":
        """A number that is not negative. Raises ImproperlyConfigured."""
        text = self.str(name, "")
        if text and not _NUMBER.fullmatch(text):
            raise ImproperlyConfigured(f"{name} is {text!r}; it must be a number such as 25 or 0.5.")
        return float(text) if text else default

    def bool(self, name: "str", default: "bool") -> "bool":
        """A switch. Raises ImproperlyConfigured."""
        text = self.str(name, "").lower()
        if text and text not in TRUE | FALSE:
            raise ImproperlyConfigured(f"{name} is {text!r}; it must be 1 or 0.")
        return text in TRUE if text else default

    def choice(self, name: "str", default: "str", choices: "Sequence[str]") -> "str":
        """One of some words. Raises ImproperlyConfigured."""
        text = self.str(name, "") or default
        if text not in choices:
            raise ImproperlyConfigured(f"{name} is {text!r}; it must be one of {', '.join(choices)}.")
        return text
