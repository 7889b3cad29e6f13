"""Django responses: content, problems (RFC 9457), redirects to the waiting instance, the waiting page."""

import json
from datetime import UTC, datetime
from hashlib import sha256

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.utils.cache import get_conditional_response
from django.utils.encoding import iri_to_uri

from . import headers
from .conf import conf
from .contents import Content

TITLES = {
    400: "Bad request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not found",
    405: "Method not allowed",
    409: "Conflict",
    410: "Gone",
    412: "Precondition failed",
    413: "Content too large",
    414: "Address too long",
    415: "Unsupported media type",
    422: "Not processable",
    429: "Too many requests",
    500: "Internal error",
    502: "The content could not be prepared",
    503: "Not available now",
    504: "The origin did not answer in time",
}


def content_response(request: HttpRequest, content: Content, *, stale: bool, why: str, now: datetime) -> HttpResponse:
    """200, or 304 when the client's validators match. Ranges are the proxy's work."""
    fields = headers.content_headers(
        content, _location(request), stale=stale, why=why, now=now, hot_seconds=conf().HOT_SECONDS
    )
    response = HttpResponse(content.body, headers=fields)
    response["Content-Length"] = str(len(content.body))
    return conditional(request, response, int(content.stored_at.timestamp()))


def constant(
    request: HttpRequest, body: bytes, content_type: str, *, shared_seconds: float, client_seconds: float | None
) -> HttpResponse:
    """Content that is known without a look-up, like the empty tile. `shared_seconds` is cut to the hot window.

    `client_seconds` None stands for as long.
    """
    etag = f'"{sha256(body).hexdigest()[:32]}"'
    shared = min(shared_seconds, headers.hot_window_seconds(conf().HOT_SECONDS))
    fields = {
        "Content-Type": content_type,
        "Content-Length": str(len(body)),
        "Content-Location": _location(request),
        "ETag": etag,
        "Cache-Control": headers.cache_control(shared if client_seconds is None else client_seconds, shared),
        "Cache-Status": "Tarry; hit; detail=constant",
        "Server-Timing": "tarry;desc=hit",
        "Accept-Ranges": "bytes",
        "X-Content-Type-Options": "nosniff",
        **headers.CORS,
    }
    return conditional(request, HttpResponse(body, headers=fields), None)


def _location(request: HttpRequest) -> str:
    """The address in ASCII, as a header field needs it."""
    return iri_to_uri(request.get_full_path()) or ""


def conditional(request: HttpRequest, response: HttpResponse, last_modified: int | None) -> HttpResponse:
    """The response, or 304 without its body when the client's validators match (RFC 9110, 13.2.2), or 412.

    The response has its ETag, the fields of CORS and Cache-Status.
    """
    answer = get_conditional_response(request, response["ETag"], last_modified, response)
    assert isinstance(answer, HttpResponse)
    if answer.status_code == 412:
        return problem(412, "The content is another than you name.", cache_status=response["Cache-Status"])
    for name in ("Cache-Status", *headers.CORS):
        answer[name] = response[name]
    return answer


def redirect(address: str, wait_seconds: float, why: str, *, preference: str = "") -> HttpResponse:
    """302 to the waiting instance. Nobody keeps it. `preference` is what was applied of the client's."""
    fields = headers.uncached(f"Tarry; fwd=miss; detail={why}", wait_seconds) | headers.applied(preference)
    return HttpResponse(status=302, headers={**fields, "Location": address})


def hand_over(ticket_query: str) -> HttpResponse:
    """For nginx alone: the waiting instance goes on with this request. No client sees anything of it.

    It has no field that nginx would add to the final answer, as Cache-Control or Content-Type.
    """
    response = HttpResponse(headers={"X-Accel-Redirect": headers.WAIT, "X-Ticket": ticket_query})
    del response["Content-Type"]
    return response


def problem(
    status: int,
    detail: str,
    *,
    wait_seconds: float | None = None,
    cache_status: str = "Tarry; fwd=miss",
    keep_seconds: int = 0,
) -> HttpResponse:
    """A problem+json answer. `keep_seconds` lets caches keep it, and so displace what they hold."""
    fields = headers.uncached(cache_status, wait_seconds)
    if keep_seconds:
        fields["Cache-Control"] = f"public, max-age={keep_seconds}"
    body = problem_body(status, detail)
    return HttpResponse(body, status=status, content_type="application/problem+json", headers=fields)


def not_now(detail: str) -> HttpResponse:
    """503 for a second: what this site has cannot be read at the moment."""
    return problem(503, detail, wait_seconds=1)


def not_allowed() -> HttpResponse:
    response = problem(405, "Only GET and HEAD are answered here.")
    response["Allow"] = headers.ALLOW
    return response


def problem_body(status: int, detail: str) -> str:
    title = TITLES.get(status, "Error")
    return json.dumps({"type": "about:blank", "title": title, "status": status, "detail": detail})


def not_found(detail: str) -> HttpResponse:
    """404, kept for a second: long enough to displace content that caches hold under this address."""
    return problem(404, detail, cache_status="Tarry; fwd=bypass; detail=unknown", keep_seconds=1)


def waiting_page(address: str, wait_seconds: float, why: str) -> HttpResponse:
    """The page for a person: what is being prepared, reloading itself. 503, so that nothing indexes it."""
    seconds = headers.whole_seconds(wait_seconds)
    fields = headers.uncached(f"Tarry; fwd=miss; detail={why}", wait_seconds)
    return HttpResponse(waiting_html(address, seconds), status=503, headers=fields)


def waiting_html(address: str, seconds: str) -> str:
    return render_to_string("retry/waiting.html", {"address": address, "seconds": seconds})


def utc_now() -> datetime:
    return datetime.now(UTC)
