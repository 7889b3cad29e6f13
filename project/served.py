"""What nginx says of mirrored files that it serves straight from the storage: fills in nginx/served*.conf.

All of it is taken from what main says of such files. What nginx knows of a file by itself is left to it.
"""

from datetime import UTC, datetime

from resources.mirroring.contents.delivery import NAMED, STRAIGHT, delivery
from resources.mirroring.serving.asking import BEGINNING
from resources.mirroring.serving.fields import BY_DIGEST, fields
from retry import headers

STATUS = "nginx; hit; detail=file"
"""In the place of main's Cache-Status."""

_DIGEST, _NAME = "$served_digest", "$served_name"  # the name has fewer letters than are taken of a digest
_SHELF_DIGITS, _DIGEST_DIGITS = 2, 64
_BY_ITSELF = frozenset({"Content-Type", "Last-Modified", "Accept-Ranges"})
_OF_TYPES = {"Content-Disposition": "$served_disposition"}
_ANY_TIME = datetime(1970, 1, 1, tzinfo=UTC)


def values(hot_seconds: float) -> dict[str, str]:
    """What the templates hold, by the names that they have for it."""
    return {
        "served_address": quoted(_address()),
        "served_tries": " ".join(f"$served_file.{ending}" for ending in STRAIGHT.values()),
        "served_types": "\n        ".join(f"{kind} {ending};" for kind, ending in STRAIGHT.items()),
        "served_dispositions": "\n    ".join(
            f"{ending} {quoted(delivery(kind, _NAME)['Content-Disposition'])};" for kind, ending in STRAIGHT.items()
        ),
        "served_fields": "\n    ".join(
            f"add_header {name} {quoted(value)};" for name, value in _fields(hot_seconds).items()
        ),
        "served_seconds": str(headers.hot_window_seconds(hot_seconds)),
        "served_status": STATUS,
    }


def quoted(text: str) -> str:
    """As nginx reads it. Variables keep their meaning."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _address() -> str:
    """A regular expression of their addresses; names the digest, and what is made of it."""
    rest = _DIGEST_DIGITS - NAMED
    name = f"(?<served_shelf>[0-9a-f]{{{_SHELF_DIGITS}}})[0-9a-f]{{{NAMED - _SHELF_DIGITS}}}"
    return f"^{BEGINNING}(?<served_digest>(?<served_name>{name})[0-9a-f]{{{rest}}})$"


def _fields(hot_seconds: float) -> dict[str, str]:
    """Those that all of them have, but for Cache-Status."""
    said = fields(next(iter(STRAIGHT)), _DIGEST, _ANY_TIME, BY_DIGEST, hot_seconds)
    common = {name: _OF_TYPES.get(name, value) for name, value in said.items() if name not in _BY_ITSELF}
    return {name: value for name, value in common.items() if name != "Cache-Status"}
