"""What a request says of how it wants to be answered: `Prefer` (RFC 7240), and navigations. PURE."""

import re
from dataclasses import dataclass

MAX_WAIT_SECONDS = 86_400
MAX_CHARACTERS = 1000

# What is matched is never tried otherwise (`++`, `*+`, `?+`): blanks can belong to two parts, and then all ways to
# divide them would be tried.
_TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]++"  # noqa: S105  RFC 9110, 5.6.2
_QUOTED = r'"(?:[^"\\]|\\.)*+"'
_WORD = rf"(?:{_TOKEN}|{_QUOTED})"
_PARAMETER = rf"{_TOKEN}(?:[ \t]*+=[ \t]*+{_WORD}?+)?+"
_PREFERENCE = re.compile(
    rf"({_TOKEN})(?:[ \t]*+=[ \t]*+({_WORD})?+)?+(?:[ \t]*+;(?:[ \t]*+{_PARAMETER})?+)*+", re.ASCII | re.DOTALL
)
_MEMBER = re.compile(rf'(?:[^,"]++|{_QUOTED}|".*+)++', re.DOTALL)
"""Up to the next comma outside of quotes. Quotes that do not end go to the end of the field."""
_SECONDS = re.compile(r"[0-9]{1,9}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Preferences:
    """`respond_async`: rather a status address than a long wait. `wait_seconds`: no longer wait than this."""

    respond_async: bool = False
    wait_seconds: int | None = None

    @property
    def is_immediate(self) -> bool:
        """Whether there is to be no wait at all."""
        return self.wait_seconds == 0 or (self.respond_async and self.wait_seconds is None)


def preferences(field: str | None) -> Preferences:
    """Reads `Prefer`, several fields joined by commas. What is unknown or malformed counts as not said.

    Of a preference that is repeated the first counts (RFC 7240, 2).
    """
    said = _said(field or "")
    return Preferences(respond_async=said.get("respond-async") == "", wait_seconds=_seconds(said.get("wait", "")))


def is_navigation(fetch_mode: str | None, accept: str | None) -> bool:
    """Whether a person waits for a page. Browsers that say nothing are known by what they accept."""
    return fetch_mode == "navigate" if fetch_mode else "text/html" in (accept or "")


def _said(field: str) -> dict[str, str]:
    said: dict[str, str] = {}
    if len(field) > MAX_CHARACTERS:
        return said
    for member in _MEMBER.findall(field):
        if found := _PREFERENCE.fullmatch(member.strip(" \t")):
            said.setdefault(found[1].lower(), _unquoted(found[2] or ""))
    return said


def _unquoted(word: str) -> str:
    return re.sub(r"\\(.)", r"\1", word[1:-1]) if word.startswith('"') else word


def _seconds(value: str) -> int | None:
    if not _SECONDS.fullmatch(value) or int(value) > MAX_WAIT_SECONDS:
        return None
    return int(value)
