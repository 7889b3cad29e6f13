"""Pages for people: the waiting page, and problems in the place of their JSON.

A project may replace their templates: `retry/base.html` has the look.

The waiting page asks the status address, and is replaced by the content as soon as there is an answer; without scripts
it loads the content's address again after a while. Search engines take its 503 for "come again".
"""

import json
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.utils.cache import patch_vary_headers

from . import headers
from .conf import conf
from .headers import NEGOTIATED_FIELDS, PROBLEM_TYPE, prefers_page
from .responses import ClientReply, ClientRequest
from .tickets import Ticket, status_address


def waiting_page_reply(ticket: Ticket, waiting: str, wait_seconds: float, *, preference: str = "") -> ClientReply:
    """Returns 503 with the waiting page. `waiting` is the sentence about the state of the content."""
    context = {
        "address": ticket.redirect,
        "status": status_address(ticket, conf().RETRY_AFTER_SERVER),
        "waiting": waiting,
        "seconds": headers.whole_seconds(wait_seconds),
    }
    fields = {
        **headers.uncached_headers("Tarry; fwd=miss; detail=page", wait_seconds),
        **headers.preference_headers(preference),
        **_page_fields(has_script=True),
    }
    return ClientReply(503, fields, _render_page("retry/waiting.html", context))


def present_reply(reply: ClientReply, asked: ClientRequest) -> ClientReply:
    """Returns a problem as a page if the client prefers that; all other replies unchanged."""
    if reply.headers.get("Content-Type") != PROBLEM_TYPE:
        return reply
    vary = ", ".join(filter(None, [reply.headers.get("Vary"), *NEGOTIATED_FIELDS]))
    fields = {**reply.headers, "Vary": vary}
    if not prefers_page(asked.fetch_mode, asked.accept):
        return ClientReply(reply.status, fields, reply.body)
    return ClientReply(reply.status, {**fields, **_page_fields()}, _render_problem(reply.body, fields, ""))


class ProblemPagesMiddleware:
    """Presents the problems of all views as pages to clients that prefer one, and tells caches of it."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if response.get("Content-Type") != PROBLEM_TYPE:
            return response
        patch_vary_headers(response, NEGOTIATED_FIELDS)
        if prefers_page(request.headers.get("Sec-Fetch-Mode"), request.headers.get("Accept")):
            again = request.get_full_path() if request.method in {"GET", "HEAD"} else ""
            response.content = _render_problem(response.content, response.headers, again)
            for name, value in {**_page_fields(), "Content-Length": str(len(response.content))}.items():
                response[name] = value
        return response


def _render_problem(body: bytes, fields: Mapping[str, str], again: str) -> bytes:
    """Renders a problem. `again` is the address to try again if the problem says when; empty for none."""
    address = again if "Retry-After" in fields else ""
    return _render_page("retry/problem.html", {"problem": json.loads(body), "address": address})


def _render_page(template: str, context: Mapping[str, object]) -> bytes:
    return render_to_string(template, {**context, "site": _static_site()}).encode()


def _page_fields(*, has_script: bool = False) -> dict[str, str]:
    """The header fields of a page. Nothing on it comes from elsewhere, or is shown within another site's page."""
    files = " ".join(filter(None, ["'self'", _static_site(), _origin(settings.STATIC_URL or "")]))
    status = " ".join(filter(None, ["'self'", _origin(conf().RETRY_AFTER_SERVER)]))  # a site has several names
    script = f"script-src {files}; connect-src {status}; " if has_script else ""
    policy = f"default-src 'none'; {script}style-src {files}; img-src {files}"
    return {
        "Content-Type": "text/html; charset=utf-8",
        "Content-Security-Policy": f"{policy}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "same-origin",
    }


def _static_site() -> str:
    """The site that has the pages' files, where clients wait at another host; empty if all have one address."""
    is_elsewhere = _origin(conf().RETRY_AFTER_SERVER) and not _origin(settings.STATIC_URL or "")
    return conf().PUBLIC_URL.rstrip("/") if is_elsewhere else ""


def _origin(address: str) -> str:
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}" if parts.netloc else ""
