"""One spelling for paths and queries that say the same (RFC 3986, 6.2.2.1 and 6.2.2.2). PURE.

Escapes of unreserved characters are resolved, all others have capital hexadecimals. Nothing is sorted, no path is
shortened, `+` and `%20` stay two: servers may tell these apart.
"""

import re
from string import ascii_letters, digits

_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_NO_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_DOT = "%2E"
_MEANT = {f"{ord(sign):02X}": sign for sign in f"{ascii_letters}{digits}-_~"}


def path(text: str) -> str:
    """The path in its one spelling. Escaped dots stay escaped where they would make a segment `.` or `..`."""
    plain = _respelt(text)
    return "/".join(_with_dots(segment) for segment in plain.split("/")) if _DOT in plain else plain


def query(text: str) -> str:
    """The query, or a piece of it, in its one spelling."""
    return _respelt(text).replace(_DOT, ".")


def _with_dots(segment: str) -> str:
    plain = segment.replace(_DOT, ".")
    return segment if plain in {".", ".."} else plain


def _respelt(text: str) -> str:
    """The text as it is when one of its percent signs begins no escape: what the rest means is anybody's guess."""
    if "%" not in text or _NO_ESCAPE.search(text):
        return text
    return _ESCAPE.sub(_one, text)


def _one(match: re.Match[str]) -> str:
    code = match[1].upper()
    return _MEANT.get(code) or f"%{code}"
