"""Middleware and error pages: CSP, large bodies for the admin, 404, 500, CSRF failure; a request's origin.

The CSRF check reads a whole body before it is known whether its sender is signed in: large bodies are refused first.
"""

import ipaddress
import sys
from collections.abc import Callable, Mapping

from django.conf import settings
from django.contrib import admin
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.views.defaults import page_not_found, server_error

from retry import headers, responses
from retry.errors import StoreUnavailable


class ContentSecurityPolicyMiddleware:
    """Adds the policy to HTML answers without one. Images and other content get no such field: they stay small."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if response.get("Content-Type", "").startswith("text/html"):
            response.headers.setdefault("Content-Security-Policy", settings.CONTENT_SECURITY_POLICY)
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
            text = 'You are not signed in, or no longer. <a href="/admin/">Sign in</a>, then send it again.'
            return _plain_page(403, "Not accepted", text)
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
    address = _request_address(request)
    if address == LOCAL_SOCKET:
        return True
    try:
        return ipaddress.ip_address(address).is_loopback and "X-Forwarded-For" not in request.headers
    except ValueError:
        return False


def request_network(request: HttpRequest) -> str:
    return headers.client_network(_request_address(request)) or LOCAL_SOCKET


def _request_address(request: HttpRequest) -> str:
    """The client's address. nginx reaches main by a unix socket, without an address, and sends it in X-Real-IP.

    Over TCP the header counts only from TRUSTED_PROXIES: any client could send it.
    """
    peer: str = request.META.get("REMOTE_ADDR", "")
    passed_on = not peer or headers.is_trusted_proxy(peer, settings.TRUSTED_PROXIES)
    return request.headers.get("X-Real-IP", "") if passed_on else peer


def answer_unknown_address(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    """Returns 404: a problem, or a page if a browser shows it to a person."""
    if _is_shown(request):
        page = page_not_found(request, exception)
        page["Cache-Control"] = "no-store"
        return page
    cache_status = "Tarry; fwd=bypass; detail=unknown"
    return responses.problem_response(404, "There is no such address.", cache_status=cache_status)


def _is_shown(request: HttpRequest) -> bool:
    return headers.is_navigation(request.headers.get("Sec-Fetch-Mode"), request.headers.get("Accept"))


OUTAGE_ERRORS = (OperationalError, InterfaceError, StoreUnavailable)
"""The database or Redis does not answer, or is locked for too long."""
OUTAGE_RETRY_SECONDS = 1


def answer_failure(request: HttpRequest) -> HttpResponseBase:
    """Returns 503 during an outage, else 500: a problem, or a page if a browser shows it to a person."""
    is_away = isinstance(sys.exception(), OUTAGE_ERRORS)
    is_shown = _is_shown(request)
    if is_away and is_shown:
        text = "A part of this site does not answer now. Nothing was lost: go back, and try again in a moment."
        fields = headers.uncached_headers("Tarry; fwd=bypass; detail=away", OUTAGE_RETRY_SECONDS)
        return _plain_page(503, "Not available now", text, fields)
    if is_away:
        return responses.not_now_response("A part of this site does not answer now. Try again later.")
    if is_shown:
        return server_error(request)
    return responses.problem_response(500, "This site failed. Its log has the reason.")


def answer_unsigned_form(_: HttpRequest, reason: str = "") -> HttpResponse:
    """Returns 403. Unlike Django's page it has no inline style, which the policy forbids. Does not show `reason`."""
    text = "The form is not valid, or too old. Reload the page, with cookies allowed, and send the form again."
    return _plain_page(403, "Not sent", text)


_PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>{title}</title></head>
<body><h1>{title}</h1><p>{text}</p></body>
</html>
"""


def _plain_page(status: int, title: str, text: str, fields: Mapping[str, str] | None = None) -> HttpResponse:
    """A page without a template: it is shown while the database or the sign-in is missing. `text` is HTML."""
    page = _PAGE.format(title=title, text=text)
    return HttpResponse(page, status=status, headers=fields or {"Cache-Control": "no-store"})
