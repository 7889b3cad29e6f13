"""Header fields: those of every answer, and those read from requests (Prefer, Accept, client address). PURE."""

import ipaddress
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.utils import format_datetime
from functools import lru_cache

from .contents import Content

CORS_HEADERS = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Expose-Headers": (
        "Cache-Status, Content-Location, ETag, Location, Preference-Applied, Retry-After, Server-Timing"
    ),
    "Timing-Allow-Origin": "*",
}

_PICTURE_HEADERS = {name: CORS_HEADERS[name] for name in ("Access-Control-Allow-Origin", "Timing-Allow-Origin")}
_DOCUMENT_HEADERS = {"X-Content-Type-Options": "nosniff", **CORS_HEADERS}

ALLOWED_METHODS = "GET, HEAD, OPTIONS"

PREFLIGHT_HEADERS = {
    "Access-Control-Allow-Methods": ALLOWED_METHODS,
    "Access-Control-Allow-Headers": "If-Modified-Since, If-None-Match, Prefer, Range",
    "Access-Control-Max-Age": "86400",
}

_MALFORMED_BODY = (
    b'{"type":"about:blank","title":"Bad request","status":400,"detail":"This is not HTTP as it should be."}'
)
MALFORMED_ANSWER = (
    b"HTTP/1.1 400 Bad Request\r\n"
    b"Content-Type: application/problem+json\r\n"
    b"Content-Length: %d\r\n"
    b"Cache-Control: no-store\r\n"
    b"Access-Control-Allow-Origin: *\r\n"
    b"Connection: close\r\n\r\n%b"
) % (len(_MALFORMED_BODY), _MALFORMED_BODY)
"""The whole answer to a request that cannot be read, for servers that have no other."""

_NO_FRONT_BODY = (
    b'{"type":"about:blank","title":"Forbidden","status":403,"detail":"Only the site\'s fronts are answered here."}'
)
NO_FRONT_ANSWER = (
    b"HTTP/1.1 403 Forbidden\r\n"
    b"Content-Type: application/problem+json\r\n"
    b"Content-Length: %d\r\n"
    b"Cache-Control: no-store\r\n"
    b"Connection: close\r\n\r\n%b"
) % (len(_NO_FRONT_BODY), _NO_FRONT_BODY)
"""The whole answer to a connection from another machine than a front."""

MODIFIED_FIELD, VARY_FIELD = "X-Delivered-Last-Modified", "X-Delivered-Vary"
"""Fields that only nginx reads: what it sends as Last-Modified, and as Vary of a 304."""

LONG_AGO = "Mon, 01 Jan 1900 00:00:00 GMT"
"""The Last-Modified that nginx compares: it wants If-None-Match and If-Modified-Since both to match.

It takes a malformed date for the last second before 1970.
"""

COMPRESSED_TYPES = (
    *("text/html", "text/css", "text/javascript", "text/plain", "application/json", "application/problem+json"),
    *(
        "application/geo+json",
        "image/svg+xml",
        "application/atom+xml",
        "application/rss+xml",
        "application/feed+json",
        "text/x-opml",
    ),
)
COMPRESSED_MIN_BYTES = 1024
"""The types that nginx compresses, and the length from which on it does."""

WAIT_LOCATION, RETURNED_LOCATION = "@wait", "@returned"
"""nginx' named locations for X-Accel-Redirect: to the waiting instance, and back to main. See nginx/site.conf."""

STALE_WHILE_REVALIDATE_SECONDS = 1

STALE_IF_ERROR_SECONDS = 60
"""Shared caches may answer for this long while main cannot be reached (RFC 5861): longer than a restart takes."""


def hot_window_seconds(hot_seconds: float) -> int:
    """Seconds for which shared caches may answer by themselves.

    Three seconds less than the promise: one for stale-while-revalidate, one for answers that were
    already stale, one because nginx counts whole seconds. See docs/decisions/0001.
    """
    return max(1, int(hot_seconds) - 3)


def content_headers(
    content: Content, path: str, *, stale: bool, why: str, now: datetime, hot_seconds: float
) -> dict[str, str]:
    """Header fields for served content, without Content-Length."""
    window = hot_window_seconds(hot_seconds)
    shared = 1 if stale else max(1, min(int(content.fresh_seconds), window))
    client = shared if content.client_seconds is None or stale else int(content.client_seconds)
    left = math.floor(content.fresh_seconds)
    hit = f"Tarry; hit; ttl={min(left, 0)}; detail={why}" if stale else f"Tarry; hit; ttl={left}"
    return {
        "Content-Type": content.content_type,
        "Content-Location": path,
        "ETag": content.etag,
        "Last-Modified": http_date(content.last_modified),
        "Expires": http_date(now + timedelta(seconds=client)),
        "Cache-Control": cache_control(client, shared, stale=stale),
        "Cache-Status": hit,
        "Server-Timing": f"prepare;dur={content.cost_seconds * 1000:.1f}, tarry;desc={'stale' if stale else 'hit'}",
        "Accept-Ranges": "bytes",
        **open_headers(content.content_type),
    }


def is_picture(content_type: str) -> bool:
    """Tells whether it is an image that is never a document: not SVG, which has scripts and links."""
    return content_type.startswith("image/") and not content_type.startswith("image/svg")


def open_headers(content_type: str) -> Mapping[str, str]:
    """Header fields by which other origins may read content. A picture is small, and no more than seen."""
    return _PICTURE_HEADERS if is_picture(content_type) else _DOCUMENT_HEADERS


def delivered_headers(modified: str, content_type: str, size_bytes: int) -> dict[str, str]:
    """Header fields for nginx, in an answer with that Last-Modified (empty without) and a body of that size.

    nginx answers If-None-Match by itself, whatever the dates are, and says of a 304 what it would say of the body.
    """
    fields = {"Last-Modified": LONG_AGO, MODIFIED_FIELD: modified} if modified else {}
    is_compressed = size_bytes >= COMPRESSED_MIN_BYTES and content_type.partition(";")[0] in COMPRESSED_TYPES
    return {**fields, VARY_FIELD: "Accept-Encoding"} if is_compressed else fields


def cache_control(client_seconds: float, shared_seconds: float, *, stale: bool = False) -> str:
    """The value of Cache-Control. Stale content has no stale-while-revalidate: it would be shown twice as long."""
    grace = "" if stale else f", stale-while-revalidate={STALE_WHILE_REVALIDATE_SECONDS}"
    bridge = f", stale-if-error={STALE_IF_ERROR_SECONDS}"
    return f"public, max-age={int(client_seconds)}, s-maxage={int(shared_seconds)}{grace}{bridge}"


def uncached_headers(cache_status: str, wait_seconds: float | None = None) -> dict[str, str]:
    """Header fields of an answer that no cache may keep: a redirect, a refusal, the waiting page."""
    fields = {"Cache-Control": "no-store", "Cache-Status": cache_status, **CORS_HEADERS}
    if wait_seconds is not None:
        fields["Retry-After"] = whole_seconds(wait_seconds)
    return fields


def preference_headers(preference: str) -> dict[str, str]:
    """Header fields of an answer that follows the client's preference (RFC 7240, 3); none without one."""
    return {"Preference-Applied": preference, "Vary": "Prefer"} if preference else {}


def preference_text(respond_async: bool | None, wait_seconds: int | None) -> str:
    wait = "" if wait_seconds is None else f"wait={wait_seconds}"
    return ", ".join(filter(None, ["respond-async" if respond_async else "", wait]))


def whole_seconds(seconds: float) -> str:
    """Retry-After: whole seconds, rounded up, one at least (RFC 9110, 10.2.3)."""
    return str(max(1, math.ceil(seconds)))


def http_date(moment: datetime) -> str:
    return format_datetime(moment, usegmt=True)


MAX_WAIT_SECONDS = 86_400
MAX_PREFER_CHARACTERS = 1000

# Possessive quantifiers (`++`, `*+`, `?+`) never backtrack: blanks can belong to two parts, and backtracking would try
# all ways to divide them.
_TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]++"  # noqa: S105  RFC 9110, 5.6.2
_QUOTED = r'"(?:[^"\\]|\\.)*+"'
_WORD = rf"(?:{_TOKEN}|{_QUOTED})"
_PARAMETER = rf"{_TOKEN}(?:[ \t]*+=[ \t]*+{_WORD}?+)?+"
_PREFERENCE = re.compile(
    rf"({_TOKEN})(?:[ \t]*+=[ \t]*+({_WORD})?+)?+(?:[ \t]*+;(?:[ \t]*+{_PARAMETER})?+)*+", re.ASCII | re.DOTALL
)
_MEMBER = re.compile(rf'(?:[^,"]++|{_QUOTED}|".*+)++', re.DOTALL)
"""Matches up to the next comma outside of quotes. An open quote goes to the end of the field."""
_SECONDS = re.compile(r"[0-9]{1,9}", re.ASCII)

MAX_ACCEPT_CHARACTERS = 2000

_MEDIA_RANGE = re.compile(rf"({_TOKEN}/{_TOKEN})((?:[ \t]*+;(?:[ \t]*+{_PARAMETER})?+)*+)", re.ASCII | re.DOTALL)
_GIVEN = re.compile(rf"({_TOKEN})[ \t]*+=[ \t]*+({_WORD})", re.ASCII | re.DOTALL)
_QUALITY = re.compile(r"0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Preferences:
    """`respond_async`: prefers a status address to a long wait. `wait_seconds`: the longest wait."""

    respond_async: bool = False
    wait_seconds: int | None = None

    @property
    def is_immediate(self) -> bool:
        return self.wait_seconds == 0 or (self.respond_async and self.wait_seconds is None)


def read_preferences(field: str | None) -> Preferences:
    """Reads `Prefer`, several fields joined by commas. Ignores unknown and malformed preferences.

    The first of repeated preferences counts (RFC 7240, 2).
    """
    sent = _parse_members(field or "")
    return Preferences(respond_async=sent.get("respond-async") == "", wait_seconds=_parse_seconds(sent.get("wait", "")))


PROBLEM_TYPE = "application/problem+json"

NEGOTIATED_FIELDS = ("Accept", "Sec-Fetch-Mode")
"""The header fields that decide between a page and JSON, for Vary."""


def prefers_page(fetch_mode: str | None, accept: str | None) -> bool:
    """Tells whether the client prefers a page to JSON, by navigating or by Accept. False without a preference."""
    if fetch_mode == "navigate":
        return True
    ranges = _parse_accept(accept or "")
    as_json = max(_find_quality(ranges, PROBLEM_TYPE), _find_quality(ranges, "application/json"))
    return _find_quality(ranges, "text/html") > as_json


def _find_quality(ranges: Mapping[str, float], media_type: str) -> float:
    """The quality of the most specific range that holds the type (RFC 9110, 12.5.1); 0 if there is none."""
    fitting = (media_type, f"{media_type.partition('/')[0]}/*", "*/*")
    return next((ranges[each] for each in fitting if each in ranges), 0.0)


def _parse_accept(field: str) -> dict[str, float]:
    """The qualities of media ranges, in lower case. Malformed ranges, and those of other charsets, are left out."""
    found: dict[str, float] = {}
    for member in _MEMBER.findall(field[:MAX_ACCEPT_CHARACTERS]):
        if not (match := _MEDIA_RANGE.fullmatch(member.strip(" \t"))):
            continue
        given = {name.lower(): _unquote(value).lower() for name, value in _GIVEN.findall(match[2])}
        quality, charset = given.pop("q", "1"), given.pop("charset", "utf-8")
        if _QUALITY.fullmatch(quality) and charset == "utf-8" and not given:
            name = match[1].lower()
            found[name] = max(float(quality), found.get(name, 0.0))
    return found


def _parse_members(field: str) -> dict[str, str]:
    members: dict[str, str] = {}
    if len(field) > MAX_PREFER_CHARACTERS:
        return members
    for member in _MEMBER.findall(field):
        if found := _PREFERENCE.fullmatch(member.strip(" \t")):
            members.setdefault(found[1].lower(), _unquote(found[2] or ""))
    return members


def _unquote(word: str) -> str:
    return re.sub(r"\\(.)", r"\1", word[1:-1]) if word.startswith('"') else word


def _parse_seconds(value: str) -> int | None:
    if not _SECONDS.fullmatch(value) or int(value) > MAX_WAIT_SECONDS:
        return None
    return int(value)


@lru_cache(maxsize=1024)
def client_network(address: str) -> str:
    """The network of one client: its IPv4 address, or the /56 of its IPv6 address: that of a household (RIPE-690).

    Text that is no address is returned unchanged.
    """
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is None:
        return str(ipaddress.ip_network((found, 56), strict=False))
    return str(getattr(found, "ipv4_mapped", None) or found)


@lru_cache(maxsize=1024)
def is_trusted_proxy(address: str, proxies: Sequence[str]) -> bool:
    """Tells whether the address is one of `proxies`: addresses and networks, as `10.1.0.0/16`. False for other text."""
    try:
        given = ipaddress.ip_address(address)
    except ValueError:
        return False
    found = getattr(given, "ipv4_mapped", None) or given
    return any(found in ipaddress.ip_network(proxy, strict=False) for proxy in proxies)
