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

    def text(self, name: str, default: str) -> str:
        return str(self._read.str(name, default))

    def words(self, name: str, default: Sequence[str] = ()) -> list[str]:
        return list(self._read.list(name, default=list(default)))

    def database(self, name: str, default: str) -> dict[str, Any]:
        return dict(self._read.db_url(name, default))

    def mail(self, name: str, default: str) -> dict[str, Any]:
        """Django's settings of where mail goes, by an address such as smtp+tls://user:password@host:587."""
        return dict(self._read.email_url(name, default))

    def whole(self, name: str, default: int, *, least: int = 1) -> int:
        """A whole number. Raises ImproperlyConfigured."""
        given = self.text(name, "")
        if given and not (_WHOLE.fullmatch(given) and int(given) >= least):
            raise ImproperlyConfigured(f"{name} is {given!r}; it must be a whole number of at least {least}.")
        return int(given) if given else default

    def number(self, name: str, default: float) -> float:
        """A number that is not negative. Raises ImproperlyConfigured."""
        given = self.text(name, "")
        if given and not _NUMBER.fullmatch(given):
            raise ImproperlyConfigured(f"{name} is {given!r}; it must be a number such as 25 or 0.5.")
        return float(given) if given else default

    def switch(self, name: str, default: bool) -> bool:
        """A switch. Raises ImproperlyConfigured."""
        given = self.text(name, "").lower()
        if given and given not in TRUE | FALSE:
            raise ImproperlyConfigured(f"{name} is {given!r}; it must be 1 or 0.")
        return given in TRUE if given else default

    def choice(self, name: str, default: str, choices: Sequence[str]) -> str:
        """One of some words. Raises ImproperlyConfigured."""
        given = self.text(name, "") or default
        if given not in choices:
            raise ImproperlyConfigured(f"{name} is {given!r}; it must be one of {', '.join(choices)}.")
        return given
