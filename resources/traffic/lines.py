"""Lines of the front's traffic log: `log_format traffic` in nginx/nginx.conf. PURE."""

import re
from dataclasses import dataclass
from functools import lru_cache

HOT = frozenset({b"HIT", b"STALE", b"UPDATING", b"REVALIDATED", b"FILE"})
"""Words of $upstream_cache_status for what nginx answered by itself, and its own for a file that it serves straight."""

_MOMENT = rb"([0-9]{1,12}\.[0-9]{3})"
_STATUS, _CACHE_STATUS, _METHOD = rb"([0-9]{3})", rb"([A-Z-]*)", rb"([A-Z_-]+)"
_READER = rb"(?: ([0-9]{6}))?"
_LINE = re.compile(
    rb"^%b %b %b [0-9]+ [0-9.]+ %b%b (/[ -~]*)$" % (_MOMENT, _STATUS, _CACHE_STATUS, _METHOD, _READER), re.MULTILINE
)
_ESCAPE = re.compile(rb"\\x([0-9A-F]{2})")

Fields = tuple[bytes, bytes, bytes, bytes, bytes, bytes]
"""Of one line: when the request ended (Unix seconds), status, cache status, method, reader, address as nginx wrote it.

The reader is a number that stands for who asked, where readers are counted; else empty.
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """How a request was answered: see retry/hits.py. `wanted`: there is such content, and somebody wanted it."""

    name: str
    wanted: bool


def parse(data: bytes) -> list[Fields]:
    """The fields of all lines that nginx has written so. Others are left out."""
    found: list[Fields] = _LINE.findall(data)
    return found


@lru_cache(maxsize=1024)  # few combinations occur; what is made up is forgotten
def answer_of(status: bytes, cache_status: bytes, method: bytes) -> Answer:
    """What the answer of that status means."""
    asked = method in {b"GET", b"HEAD"}
    match int(status):
        case 200 | 206 | 304 if asked:
            return Answer("hot" if cache_status in HOT else "passed", wanted=True)
        case 202 | 302 if asked:
            return Answer("waiting", wanted=True)
        case 404 | 410:
            return Answer("missing", wanted=False)
        case 429 | 503:
            return Answer("busy", wanted=False)
        case 500 | 501 | 502 | 504:
            return Answer("failed", wanted=False)
        case _:
            return Answer("other", wanted=False)


def address(escaped: bytes) -> str | None:
    """The address that was asked for; None when it is not UTF-8. nginx writes other bytes as `\\xC3`."""
    plain = _ESCAPE.sub(lambda found: bytes.fromhex(found[1].decode()), escaped) if b"\\" in escaped else escaped
    try:
        return plain.decode()
    except UnicodeDecodeError:
        return None
