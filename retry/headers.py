"""The header fields of every answer, main's and the waiting instance's. PURE."""

import math
from datetime import datetime, timedelta
from email.utils import format_datetime

from .contents import Content

CORS = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Expose-Headers": (
        "Cache-Status, Content-Location, ETag, Location, Preference-Applied, Retry-After, Server-Timing"
    ),
    "Timing-Allow-Origin": "*",
}

ALLOW = "GET, HEAD, OPTIONS"

PREFLIGHT = {
    "Access-Control-Allow-Methods": ALLOW,
    "Access-Control-Allow-Headers": "If-Modified-Since, If-None-Match, Prefer, Range",
    "Access-Control-Max-Age": "86400",
}

PAGE = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}

WAIT, RETURNED = "@wait", "@returned"
"""nginx' named locations for X-Accel-Redirect: to the waiting instance, and back to main. See nginx/site.conf."""

STALE_WHILE_REVALIDATE_SECONDS = 1

STALE_IF_ERROR_SECONDS = 60
"""How long shared caches may answer while main cannot be reached (RFC 5861): longer than a restart takes."""


def hot_window_seconds(hot_seconds: float) -> int:
    """How long shared caches may answer by themselves.

    Three seconds less than the promise: one for stale-while-revalidate, one for answers that were
    stale when they were given, one because nginx counts whole seconds. See docs/decisions/0001.
    """
    return max(1, int(hot_seconds) - 3)


def content_headers(
    content: Content, path: str, *, stale: bool, why: str, now: datetime, hot_seconds: float
) -> dict[str, str]:
    """Header fields for content that is served. Does not give Content-Length."""
    window = hot_window_seconds(hot_seconds)
    shared = 1 if stale else max(1, min(int(content.fresh_seconds), window))
    client = shared if content.client_seconds is None or stale else int(content.client_seconds)
    left = math.floor(content.fresh_seconds)
    hit = f"Tarry; hit; ttl={min(left, 0)}; detail={why}" if stale else f"Tarry; hit; ttl={left}"
    return {
        "Content-Type": content.content_type,
        "Content-Location": path,
        "ETag": content.etag,
        "Last-Modified": http_date(content.stored_at),
        "Expires": http_date(now + timedelta(seconds=client)),
        "Cache-Control": cache_control(client, shared, stale=stale),
        "Cache-Status": hit,
        "Server-Timing": f"prepare;dur={content.cost_seconds * 1000:.1f}, tarry;desc={'stale' if stale else 'hit'}",
        "Accept-Ranges": "bytes",
        "X-Content-Type-Options": "nosniff",
        **CORS,
    }


def cache_control(client_seconds: float, shared_seconds: float, *, stale: bool = False) -> str:
    """Stale content gets no stale-while-revalidate: it would be shown for twice as long."""
    grace = "" if stale else f", stale-while-revalidate={STALE_WHILE_REVALIDATE_SECONDS}"
    bridge = f", stale-if-error={STALE_IF_ERROR_SECONDS}"
    return f"public, max-age={int(client_seconds)}, s-maxage={int(shared_seconds)}{grace}{bridge}"


def uncached(cache_status: str, wait_seconds: float | None = None) -> dict[str, str]:
    """Header fields of an answer that nobody may keep: a redirect, a refusal, the waiting page."""
    fields = {"Cache-Control": "no-store", "Cache-Status": cache_status, **CORS}
    if wait_seconds is not None:
        fields["Retry-After"] = whole_seconds(wait_seconds)
    return fields


def applied(preference: str) -> dict[str, str]:
    """Header fields of an answer that follows the client's preference (RFC 7240, 3); none without one."""
    return {"Preference-Applied": preference, "Vary": "Prefer"} if preference else {}


def preference(respond_async: bool | None, wait_seconds: int | None) -> str:
    """The preferences as Preference-Applied names them."""
    wait = "" if wait_seconds is None else f"wait={wait_seconds}"
    return ", ".join(filter(None, ["respond-async" if respond_async else "", wait]))


def whole_seconds(seconds: float) -> str:
    """Retry-After: whole seconds, rounded up, one at least (RFC 9110, 10.2.3)."""
    return str(max(1, math.ceil(seconds)))


def http_date(moment: datetime) -> str:
    return format_datetime(moment, usegmt=True)
