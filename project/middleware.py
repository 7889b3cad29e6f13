"""Middleware and errors: policies of pages, large bodies for the admin, 400, 404, 500, CSRF failure; a request's origin.

The CSRF check reads a whole body before it is known whether its sender is signed in: large bodies are refused first.
"""

import ipaddress
import sys
from collections.abc import Callable

from django.conf import settings
from django.contrib import admin
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse

from resources import problems
from retry import responses
from retry.errors import StoreUnavailable
from retry.headers import is_picture

_OF_PAGES = ("X-Frame-Options", "X-Content-Type-Options", "Referrer-Policy", "Cross-Origin-Opener-Policy")


class PagePoliciesMiddleware:
    """Adds a Content-Security-Policy to HTML answers without one, and takes all policies of pages off pictures.

    Pictures with a policy of their own keep all: they are files of others. Comes before SecurityMiddleware.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        content_type = response.get("Content-Type", "")
        if content_type.startswith("text/html"):
            response.headers.setdefault("Content-Security-Policy", settings.CONTENT_SECURITY_POLICY)
        elif is_picture(content_type) and "Content-Security-Policy" not in response:
            for name in _OF_PAGES:
                del response.headers[name]
        return response


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
