"""Middleware: policies of pages, the hot cache's budget, large bodies. Errors: 400, 404, 500, CSRF. A request's origin.

The CSRF check reads a whole body before it is known whether its sender is signed in: large bodies are refused first.
"""

import ipaddress
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock

from django.conf import settings
from django.contrib import admin
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.middleware.security import SecurityMiddleware

from resources import problems
from resources.disk import room
from resources.disk.account import disk_bytes
from resources.disk.shares import HOT_BURST_SECONDS
from retry import responses
from retry.errors import StoreUnavailable
from retry.headers import is_picture

_OF_PAGES = ("X-Frame-Options", "X-Content-Type-Options", "Referrer-Policy", "Cross-Origin-Opener-Policy")


class PagePoliciesMiddleware:
    """Adds a Content-Security-Policy to HTML answers without one, and takes all policies of pages off pictures.

    Pictures with a policy of their own keep all: they are files of others. Comes before SecurityMiddleware, and adds
    its fields where the handler of content leaves it out.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response
        self._security, self._https = SecurityMiddleware(get_response), SecurityMiddleware(get_response)
        vars(self._https).update(content_type_nosniff=False, referrer_policy=None, cross_origin_opener_policy=None)

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        fields = response.headers
        content_type = fields.get("Content-Type", "")
        if is_picture(content_type) and "Content-Security-Policy" not in fields:
            for name in _OF_PAGES:
                fields.pop(name)
            return self._https.process_response(request, response)
        if content_type.startswith("text/html"):
            fields.setdefault("Content-Security-Policy", settings.CONTENT_SECURITY_POLICY)
        return self._security.process_response(request, response)


class HotCacheMiddleware:
    """Keeps main from filling nginx' hot cache faster than nginx empties it. Only where the disk is bounded.

    nginx compares the hot cache with its bound every ten seconds. In any HOT_BURST_SECONDS each of main's processes
    lets answers be kept up to its share of HOT_BURST_SHARE; more are not kept. On a full disk none is.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response
        shares = room.disk_shares()
        assert shares is not None  # the settings leave it out then
        self._budget = HotBudget(shares.hot_burst_bytes // settings.MAIN_WORKERS)

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if "public" in response.headers.get("Cache-Control", ""):
            size = int(response.headers.get("Content-Length") or len(getattr(response, "content", b"")))
            if not self._budget.take(size, time.monotonic()):
                response.headers[NOT_KEPT_HEADER] = "1"
        return response


NOT_KEPT_HEADER = "X-Not-Kept"
"""The field by which nginx knows an answer that it passes on without keeping it."""

FULL_LOOK_SECONDS = 5.0
"""Between two looks whether the disk is full, which is measured as often."""

ANSWER_EXTRA_BYTES = 4096
"""What an answer takes in the hot cache besides its body, up to whole blocks: the head, and nginx' own."""


@dataclass(slots=True)
class HotBudget:
    """What a process may add to the hot cache: `most_bytes` in any HOT_BURST_SECONDS. What is older comes back."""

    most_bytes: int
    _taken: int = 0
    _by_second: dict[int, int] = field(default_factory=dict)
    """The bytes that were taken in each second of that time."""
    _looked_at: float = -math.inf
    _is_full: bool = False
    _lock: Lock = field(default_factory=Lock)

    def take(self, size: int, now_seconds: float) -> bool:
        """Tells whether an answer of that size may be kept. `now_seconds` is monotonic."""
        with self._lock:
            if now_seconds >= self._looked_at + FULL_LOOK_SECONDS:
                self._looked_at, self._is_full = now_seconds, room.is_full()
            self._return_old(now_seconds)
            added = disk_bytes(size + ANSWER_EXTRA_BYTES)
            if self._is_full or self._taken + added > self.most_bytes:
                return False
            second = int(now_seconds)
            self._by_second[second] = self._by_second.get(second, 0) + added
            self._taken += added
            return True

    def _return_old(self, now_seconds: float) -> None:
        for second in [each for each in self._by_second if each + 1 + HOT_BURST_SECONDS <= now_seconds]:
            self._taken -= self._by_second.pop(second)


FORM_MAX_BYTES = 65_536
"""The largest body that a client may send without a sign-in, as the sign-in itself."""


class LargeBodiesMiddleware:
    """Answers large bodies for the admin with 403 unless the user is signed in. Reads nothing of them.

    Must come after the middleware for sessions and users, and before all that read forms.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if _is_large(request) and not admin.site.has_permission(request):
            detail = "You are not signed in, or no longer. Sign in at /admin/, then send it again."
            return responses.problem_response(403, detail, cache_status="Tarry; fwd=bypass")
        return self.get_response(request)


def _is_large(request: HttpRequest) -> bool:
    try:
        length = int(request.META.get("CONTENT_LENGTH") or 0)
    except ValueError:  # Django reads no such body
        return False
    return length > FORM_MAX_BYTES and request.path_info.startswith("/admin")


LOCAL_SOCKET = "unix:"
"""The address of requests by nginx' own socket, in a directory that only this user can enter."""


def is_local_request(request: HttpRequest) -> bool:
    """Tells whether the request was made on this machine. A request passed on by a proxy counts as from outside."""
    address = responses.client_address(request)
    if address == LOCAL_SOCKET:
        return True
    try:
        return ipaddress.ip_address(address).is_loopback and "X-Forwarded-For" not in request.headers
    except ValueError:
        return False


def request_network(request: HttpRequest) -> str:
    return responses.client_network_of(request) or LOCAL_SOCKET


def answer_malformed(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Returns 400 for a request that Django refuses by itself."""
    detail = problems.describe_refusal(exception)
    return responses.problem_response(400, detail, cache_status="Tarry; fwd=bypass")


def answer_unknown_address(request: HttpRequest, exception: Exception) -> HttpResponse:
    cache_status = "Tarry; fwd=bypass; detail=unknown"
    return responses.problem_response(404, "There is no such address.", cache_status=cache_status)


OUTAGE_ERRORS = (OperationalError, InterfaceError, StoreUnavailable)
"""The database or Redis does not answer, or is locked for too long."""


def answer_failure(request: HttpRequest) -> HttpResponse:
    """Returns 503 during an outage, else 500."""
    if isinstance(sys.exception(), OUTAGE_ERRORS):
        return responses.not_now_response("A part of this site does not answer now. Nothing was lost: try again later.")
    return responses.problem_response(500, "This site failed. Its log has the reason.")


def answer_unsigned_form(_: HttpRequest, reason: str = "") -> HttpResponse:
    """Returns 403. Does not show `reason`."""
    detail = "The form is not valid, or too old. Reload the page, with cookies allowed, and send the form again."
    return responses.problem_response(403, detail, cache_status="Tarry; fwd=bypass")
