"""When an address stops working, as far as its own parameters tell. PURE.

Only parameters that stand beside a signature are believed: `Expires` alone could mean anything.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from urllib.parse import parse_qsl

MAX_FIELDS = 200

_SECONDS = re.compile(r"[0-9]{9,11}", re.ASCII)
_LIFETIME = re.compile(r"[0-9]{1,7}", re.ASCII)
_HEXADECIMAL = re.compile(r"[0-9a-fA-F]{8}", re.ASCII)
_BASIC = re.compile(r"[0-9]{8}T[0-9]{6}Z", re.ASCII)
_EXTENDED = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,7})?)?Z)?", re.ASCII)


def expires_at(url: str) -> float | None:
    """The moment in Unix seconds; None for an address that does not say, or says it in an unknown way."""
    query = url.partition("#")[0].partition("?")[2]
    if "=" not in query:
        return None
    try:
        given = dict(parse_qsl(query, max_num_fields=MAX_FIELDS))
    except ValueError:
        return None
    found = [moment for read in _READERS if (moment := read(given)) is not None]
    return min(found, default=None)


def _aws(given: Mapping[str, str]) -> float | None:
    return _dated(given, "X-Amz")


def _google(given: Mapping[str, str]) -> float | None:
    return _dated(given, "X-Goog")


def _dated(given: Mapping[str, str], prefix: str) -> float | None:
    """A date and a lifetime: signatures of version 4, of S3 and those made like it."""
    date, lifetime = given.get(f"{prefix}-Date", ""), given.get(f"{prefix}-Expires", "")
    if f"{prefix}-Signature" not in given or not (_BASIC.fullmatch(date) and _LIFETIME.fullmatch(lifetime)):
        return None
    begun = _moment(date, "%Y%m%dT%H%M%SZ")
    return None if begun is None else begun + int(lifetime)


def _expires(given: Mapping[str, str]) -> float | None:
    """`Expires` in Unix seconds: S3 of version 2, CloudFront, Google's of version 2."""
    value = given.get("Expires", "")
    return float(value) if "Signature" in given and _SECONDS.fullmatch(value) else None


def _azure(given: Mapping[str, str]) -> float | None:
    """`se` beside `sig`: a shared access signature, a date alone or with a time."""
    value = given.get("se", "")
    if "sig" not in given or not _EXTENDED.fullmatch(value):
        return None
    form = {10: "%Y-%m-%d", 17: "%Y-%m-%dT%H:%MZ"}.get(len(value), "%Y-%m-%dT%H:%M:%SZ")
    return _moment(re.sub(r"\.[0-9]+", "", value), form)


def _meta(given: Mapping[str, str]) -> float | None:
    """`oe` beside `oh`: seconds in hexadecimals, of Facebook's and Instagram's files."""
    return _hexadecimal(given.get("oe", "")) if "oh" in given else None


def _discord(given: Mapping[str, str]) -> float | None:
    """`ex` beside `hm`: the same, of Discord's."""
    return _hexadecimal(given.get("ex", "")) if "hm" in given else None


def _hexadecimal(value: str) -> float | None:
    return float(int(value, 16)) if _HEXADECIMAL.fullmatch(value) else None


def _moment(value: str, form: str) -> float | None:
    try:
        return datetime.strptime(value, form).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


_READERS: tuple[Callable[[Mapping[str, str]], float | None], ...] = (_aws, _google, _expires, _azure, _meta, _discord)
