"""System checks: report settings that contradict each other before the first request."""

import re
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core import checks
from django.core.checks import CheckMessage, Error
from django.http.request import validate_host
from django.urls import Resolver404, get_resolver
from django.utils.module_loading import import_string

from . import lanes, server_urls
from .conf import LaneBounds, conf
from .contents import SERVABLE_SECONDS
from .headers import hot_window_seconds, is_trusted_proxy

_ORIGIN_PATTERN = r"https?://[A-Za-z0-9.\-\[\]:_]+"
DELIVERIES = ("redirect", "inline", "internal")
SITE_PATTERN = re.compile(_ORIGIN_PATTERN + "/?")
SERVER_PATTERN = re.compile(rf"({_ORIGIN_PATTERN})?(/[A-Za-z0-9._~-]+)+")

MIN_SKIP_SECONDS = 15
"""Rooms are looked at every two seconds; a pause of the sweeper shows after ten."""

UNSHARED_BACKENDS = ("locmem.LocMemCache", "dummy.DummyCache")


def check_waiting(app_configs: Sequence[Any] | None, **_: Any) -> Iterator[CheckMessage]:
    wait, waits, proxy = conf().DEFAULT_RETRY_TIMEOUT, conf().RETRY_MAX_WAITS, conf().PROXY_TIMEOUT
    if not 0 < wait <= 300:
        yield Error(f"DEFAULT_RETRY_TIMEOUT is {wait} s; it must be above 0 and at most 300.", id="retry.E001")
    if wait >= proxy:
        message = f"DEFAULT_RETRY_TIMEOUT ({wait} s) is not below PROXY_TIMEOUT ({proxy} s): waits would end in 504."
        yield Error(message, hint="Raise PROXY_TIMEOUT or wait for a shorter time.", id="retry.E002")
    if not conf().PAGE_PATIENCE_SECONDS >= 0:
        yield Error("PAGE_PATIENCE_SECONDS must not be negative.", id="retry.E025")
    if not 1 <= waits <= 10:
        yield Error(f"RETRY_MAX_WAITS is {waits}; it must be 1 to 10.", id="retry.E005")
    elif waits > 2:
        message = f"RETRY_MAX_WAITS is {waits}: clients that follow only three redirects will fail."
        yield checks.Warning(message, id="retry.W001")
    if wait * waits >= conf().RETRY_TICKET_SECONDS:
        yield Error("Tickets expire before their waits end.", id="retry.E008")


def check_delivery(app_configs: Sequence[Any] | None, **_: Any) -> Iterator[CheckMessage]:
    server, public = conf().RETRY_AFTER_SERVER, conf().PUBLIC_URL
    if conf().RETRY_DELIVERY not in DELIVERIES:
        message = f"RETRY_DELIVERY is {conf().RETRY_DELIVERY!r}; known are: {', '.join(DELIVERIES)}."
        yield Error(message, id="retry.E006")
    elif conf().RETRY_DELIVERY != "redirect" and not (server.startswith("/") or _origin(server) == _origin(public)):
        message = f"RETRY_DELIVERY is {conf().RETRY_DELIVERY}, but RETRY_AFTER_SERVER is not at PUBLIC_URL."
        hint = "One nginx must have both: make RETRY_AFTER_SERVER a path, or choose redirect."
        yield Error(message, hint=hint, id="retry.E006")
    if not SERVER_PATTERN.fullmatch(server):
        message = "RETRY_AFTER_SERVER must be a path like /retry_after, or an http(s) URL with such a path."
        yield Error(message, id="retry.E007")
    if public and not (SITE_PATTERN.fullmatch(public) and _has_a_port(public)):
        yield Error("PUBLIC_URL must be an http(s) URL without a path.", id="retry.E009")
    elif public and not validate_host(urlsplit(public).hostname or "", settings.ALLOWED_HOSTS):
        message = f"ALLOWED_HOSTS does not name the host of PUBLIC_URL ({public}): its own addresses are refused."
        yield Error(message, hint="Set PUBLIC_URL to the address that clients use.", id="retry.E017")
    try:
        is_trusted_proxy("127.0.0.1", conf().TRUSTED_PROXIES)
    except ValueError as error:
        yield Error(f"TRUSTED_PROXIES must be addresses and networks: {error}.", id="retry.E018")
    if not public and not server.startswith("/"):
        yield _no_public_url()


def check_waiting_address(app_configs: Sequence[Any] | None, **_: Any) -> Iterator[CheckMessage]:
    """Checks that the site has no other page at or below the path where clients wait."""
    path = urlsplit(conf().RETRY_AFTER_SERVER).path
    taken = any(_is_taken(address) for address in (path, f"{path}/status"))
    if taken or f"{path}/".startswith((settings.STATIC_URL or "/static/", "/refused/")):
        message = f"RETRY_AFTER_SERVER is at {path}, where this site has other pages."
        yield Error(message, hint="Choose another path, as /retry_after.", id="retry.E019")


def _is_taken(address: str) -> bool:
    """Tells whether the site has a page there, the waiting instance's aside."""
    for pattern in get_resolver().url_patterns:
        try:
            match = pattern.resolve(address.removeprefix("/"))
        except Resolver404:
            continue
        if match and match.url_name not in ("retry_after", "retry_status"):
            return True
    return False


def _has_a_port(address: str) -> bool:
    """Tells whether the port of the address is valid; True without a port."""
    try:
        return urlsplit(address).port != 0
    except ValueError:
        return False


def _origin(address: str) -> str:
    """Scheme, host and port, the port only where it is not the scheme's own."""
    scheme, _, rest = address.lower().partition("://")
    return f"{scheme}://{rest.partition('/')[0].removesuffix({'http': ':80', 'https': ':443'}.get(scheme, ''))}"


def check_public_url(app_configs: Sequence[Any] | None, **_: Any) -> Iterator[CheckMessage]:
    if not (conf().PUBLIC_URL or settings.DEBUG):
        yield _no_public_url()


def _no_public_url() -> Error:
    message = "PUBLIC_URL is not set: links and redirects would follow whatever Host a client sends."
    return Error(message, hint="Set PUBLIC_URL to this site's address.", id="retry.E004")


def check_stores(app_configs: Sequence[Any] | None, **_: Any) -> Iterator[CheckMessage]:
    backend = settings.CACHES.get("default", {}).get("BACKEND", "")
    if backend.endswith(UNSHARED_BACKENDS) and not settings.DEBUG:
        message = f"The cache backend {backend} is not shared between processes."
        yield Error(message, hint="Use Redis by CACHE_URL.", id="retry.E003")
    for name in ("REDIS_URL", "CACHE_URL"):
        if refusal := _refuse_url(getattr(conf(), name)):
            yield Error(f"{name} {refusal}", id="retry.E010")
    if conf().REDIS_URL == conf().CACHE_URL:
        message = "REDIS_URL and CACHE_URL are one database: eviction would take claims and queued work."
        yield checks.Warning(message, hint="Run two servers: noeviction and allkeys-lru.", id="retry.W002")


def _refuse_url(url: str) -> str:
    if url.startswith(("redis://", "rediss://", "unix://")):
        return ""
    if not url.startswith((f"{server_urls.SENTINEL}://", f"{server_urls.CLUSTER}://")):
        return "must be a redis://, rediss://, unix://, redis+sentinel:// or rediscluster:// URL."
    try:
        server_urls.ServerUrl.parse(url)
    except ValueError as error:
        return f"cannot be read: {error}."
    return ""


def check_times(app_configs: Sequence[Any] | None, **_: Any) -> Iterator[CheckMessage]:
    if conf().RETRY_LEASE_SECONDS < 3 or conf().RETRY_LEASE_SECONDS >= conf().RETRY_MAX_PREPARE_SECONDS:
        yield Error("RETRY_LEASE_SECONDS must be at least 3 and below RETRY_MAX_PREPARE_SECONDS.", id="retry.E011")
    if conf().HOT_SECONDS < hot_window_seconds(conf().HOT_SECONDS) + 3:
        message = f"HOT_SECONDS is {conf().HOT_SECONDS}: changes show after four seconds at the soonest."
        yield checks.Warning(message, id="retry.W003")
    if not 1 <= conf().RETRY_DONE_SECONDS <= SERVABLE_SECONDS:
        message = f"RETRY_DONE_SECONDS must be 1 to {SERVABLE_SECONDS}: as long as content is kept at the least."
        yield Error(message, id="retry.E014")
    if not 0 < conf().RETRY_REDIS_TIMEOUT <= 1:
        yield Error("RETRY_REDIS_TIMEOUT must be above 0 and at most 1 s.", id="retry.E015")
    if conf().RETRY_MAX_CLIENTS < 1 or conf().RETRY_CLIENTS_PER_ADDRESS < 0:
        message = "RETRY_MAX_CLIENTS must be at least 1, and RETRY_CLIENTS_PER_ADDRESS not negative."
        yield Error(message, id="retry.E016")
    if not 0 < conf().RETRY_BACKOFF_BASE_SECONDS <= conf().RETRY_BACKOFF_MAX_SECONDS:
        yield Error("RETRY_BACKOFF_BASE_SECONDS must be above 0 and at most the maximum.", id="retry.E012")


def check_lanes(app_configs: Sequence[Any] | None, **_: Any) -> Iterator[CheckMessage]:
    known, skip, least = conf().RETRY_LANES, conf().RETRY_SKIP_SECONDS, MIN_SKIP_SECONDS
    if bad := [name for name, lane in known.items() if lane["limit"] < 1 or lane["workers"] < 1]:
        yield Error(f"Lanes need a limit and workers of at least 1: {', '.join(bad)}.", id="retry.E013")
    if bad := [name for place, name in enumerate(known) if not {known[name].get("up")} <= {None, *list(known)[:place]}]:
        yield Error(f"Lanes must name a faster lane, one before them, as `up`: {', '.join(bad)}.", id="retry.E021")
    if bad := [name for name, lane in known.items() if not _can_be_loaded(lane)]:
        yield Error(f"The publisher or line of these lanes cannot be imported: {', '.join(bad)}.", id="retry.E024")
    if not _can_be_called(conf().RETRY_LANE_WORKERS):
        yield Error("RETRY_LANE_WORKERS must be the dotted path of a function, or empty.", id="retry.E026")
    if skip and (skip < least or skip <= conf().DEFAULT_RETRY_TIMEOUT):
        message = f"RETRY_SKIP_SECONDS is {skip}; it must be 0, or at least {least} and above DEFAULT_RETRY_TIMEOUT."
        hint = "Clients that were told to come again in that time would find their work skipped."
        yield Error(message, hint=hint, id="retry.E022")
    if conf().RETRY_AGE_SECONDS < 0 or conf().RETRY_SKIP_BACKLOG_SECONDS < 0:
        yield Error("RETRY_AGE_SECONDS and RETRY_SKIP_BACKLOG_SECONDS must not be negative.", id="retry.E023")


def _can_be_called(path: str) -> bool:
    try:
        return not path or callable(import_string(path))
    except ImportError:
        return False


def _can_be_loaded(lane: LaneBounds) -> bool:
    try:
        has_publisher = "publisher" not in lane or callable(lanes.load_publisher(lane["publisher"]))
        return has_publisher and ("line" not in lane or callable(lanes.load_line(lane["line"])))
    except ImportError:
        return False


def check_popularity(app_configs: Sequence[Any] | None, **_: Any) -> Iterator[CheckMessage]:
    if not 1 <= conf().POPULARITY_HALF_LIFE_SECONDS <= 31_536_000:
        yield Error("POPULARITY_HALF_LIFE_SECONDS must be from a second to a year.", id="retry.E030")
    if conf().POPULARITY_KEYS < 1 or not conf().POPULAR_REQUESTS > 0:
        yield Error("POPULARITY_KEYS must be at least 1, and POPULAR_REQUESTS above 0.", id="retry.E031")
