"""What of a feed's address may be a secret, and what a publisher says without it. PURE.

Secrets are values of parameters that are called like secrets, and what looks like a token, there or in a path. What
is secret without looking like it cannot be known: such feeds are for `Feed.is_hidden`.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote_plus, urlsplit

LEFT_OUT = "…"
LEAST_VALUE_CHARACTERS = 6
"""Of a parameter's value; shorter ones tell formats and numbers of pages."""

_SECRET_NAME = re.compile(r"token|key|auth|secret|pass|pwd|sig|hash|session|code|user|login|\A\Z", re.I)
_MIXED = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z]).{8,}")
_TOKEN = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[A-Za-z0-9_~.=-]{16,}")
_TEXTS = frozenset({"title", "summary", "content", "subtitle", "rights", "name", "term", "label"})
"""Fields in which secrets are replaced. All others are addresses and the like, of no use without them: they go."""
_WHOLE = frozenset({"cloud", "enclosures"})
"""What has no use, and no meaning, without one of its fields."""


def secrets_of(url: str) -> tuple[str, ...]:
    """The parts of an address that may be secrets, the longest first."""
    parts = urlsplit(url)
    found = {part for part in parts.path.split("/") if _TOKEN.fullmatch(part)}
    for pair in parts.query.split("&"):
        name, equals, value = pair.partition("=")
        name, value = (name, value) if equals else ("", pair)
        is_secret = _SECRET_NAME.search(name) or _MIXED.fullmatch(value)
        if is_secret and len(value) >= LEAST_VALUE_CHARACTERS:
            found |= {pair, value} if _TOKEN.fullmatch(value) else {pair}
    found |= {unquote_plus(part) for part in found}
    return tuple(sorted(found, key=lambda part: (-len(part), part)))


def secrets_of_all(urls: Iterable[str]) -> tuple[str, ...]:
    """Those of several addresses, the longest first."""
    return tuple(sorted({part for url in urls for part in secrets_of(url)}, key=lambda part: (-len(part), part)))


def shows(text: str, url: str) -> bool:
    """Whether a text has anything of a secret in that address, or all of the address but its scheme."""
    parts = urlsplit(url)
    whole = f"{parts.netloc}{parts.path}".lower() if parts.path.strip("/") else ""
    return any(part in text for part in secrets_of(url)) or (bool(whole) and whole in text.lower())


def without(said: Mapping[str, Any], secrets: tuple[str, ...]) -> Mapping[str, Any]:
    """What a feed or an entry says, as JSON, without these."""
    if not secrets:
        return said
    return {name: kept for name, value in said.items() if (kept := _without(name, value, secrets)) is not None}


def _without(name: str, value: Any, secrets: tuple[str, ...]) -> Any:
    """None for what goes."""
    match value:
        case str() if name in _TEXTS:
            for part in secrets:
                value = value.replace(part, LEFT_OUT)
            return value
        case str():
            return None if any(part in value for part in secrets) else value
        case list():
            kept = [_without(name, one, secrets) for one in value]
            return [one for one in kept if one is not None]
        case dict():
            rest = without(value, secrets)
            return None if name in _WHOLE and len(rest) < len(value) else rest
    return value
