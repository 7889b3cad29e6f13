"""Answers: content, problems (RFC 9457), redirects to the waiting instance, the state of content.

Built as Django responses, and as replies for any kind of server. Content is asked for by GET, HEAD, and a
browser's OPTIONS from another origin.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import wraps
from hashlib import sha256
from typing import Concatenate, ParamSpec, TypeVar
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import get_conditional_response
from django.utils.encoding import iri_to_uri
from django.views.decorators.csrf import csrf_exempt

from . import claim_state, headers
from .conf import conf
from .contents import Content
from .decision import LookResult
from .tickets import Ticket, status_address

PROBLEM_TITLES = {
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
    416: "Range not satisfiable",
    421: "Misdirected request",
    422: "Not processable",
    429: "Too many requests",
    431: "Header fields too large",
    500: "Internal error",
    502: "The content could not be prepared",
    503: "Not available now",
    504: "The origin did not answer in time",
}

Arguments = ParamSpec("Arguments")
Response = TypeVar("Response", bound=HttpResponseBase)
View = Callable[Concatenate[HttpRequest, Arguments], Response]


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """A request. `address` is the client's, for its own limit; `front` is nginx' X-Front; `prefer` is Prefer.

    `is_simple` is True for a GET without conditions and ranges.
    """

    method: str
    query: bytes
    host: str
    fetch_mode: str | None = None
    accept: str | None = None
    address: str = ""
    front: str = ""
    prefer: str | None = None
    is_simple: bool = False


@dataclass(frozen=True, slots=True)
class ClientReply:
    status: int
    headers: Mapping[str, str]
    body: bytes = b""


def client_address(request: HttpRequest) -> str:
    """Returns the client's address. nginx reaches main by a Unix socket, without an address, and sends X-Real-IP.

    Over TCP the header counts only from TRUSTED_PROXIES and FRONTS: any client could send it.
    """
    peer: str = request.META.get("REMOTE_ADDR", "")
    passed_on = not peer or headers.is_trusted_proxy(peer, (*conf().TRUSTED_PROXIES, *conf().FRONTS))
    return request.META.get("HTTP_X_REAL_IP", "") if passed_on else peer


def is_behind_nginx(request: HttpRequest) -> bool:
    """True if nginx passes this request on: it marks each one."""
    return "HTTP_X_FRONT" in request.META


def client_network_of(request: HttpRequest) -> str:
    """Returns the client's network, as headers.client_network() names it; empty if it has no address."""
    return headers.client_network(client_address(request))


def content_response(request: HttpRequest, content: Content, *, stale: bool, why: str, now: datetime) -> HttpResponse:
    """Returns 200, or 304 if the client's validators match. Ranges are left to the proxy."""
    fields = _content_fields(content, request.get_full_path(), stale=stale, why=why, now=now)
    response = HttpResponse(content.body, headers={**fields, "Content-Length": str(len(content.body))})
    return conditional_response(request, response, int(content.last_modified.timestamp()))


def picture_reply(content: Content, address: str, now: datetime) -> ClientReply:
    """Returns 200 with a fresh picture, as main with all of its middleware does."""
    path = address if address.startswith("/") else urlsplit(address)._replace(scheme="", netloc="").geturl()
    in_ascii = iri_to_uri(path) or ""  # as a header field needs it
    fields = _content_fields(content, in_ascii, stale=False, why="hit", now=now)
    if settings.SECURE_HSTS_SECONDS:
        fields["Strict-Transport-Security"] = f"max-age={settings.SECURE_HSTS_SECONDS}"
    return ClientReply(200, fields, content.body)


def _content_fields(content: Content, path: str, *, stale: bool, why: str, now: datetime) -> dict[str, str]:
    return headers.content_headers(content, path, stale=stale, why=why, now=now, hot_seconds=conf().HOT_SECONDS)


def constant_response(
    request: HttpRequest, body: bytes, content_type: str, *, shared_seconds: float, client_seconds: float | None
) -> HttpResponse:
    """Answers with content that needs no look-up, as the empty tile. `shared_seconds` is cut to the hot window.

    `client_seconds` None stands for the same time.
    """
    etag = f'"{sha256(body).hexdigest()[:32]}"'
    shared = min(shared_seconds, headers.hot_window_seconds(conf().HOT_SECONDS))
    fields = {
        "Content-Type": content_type,
        "Content-Length": str(len(body)),
        "Content-Location": request.get_full_path(),
        "ETag": etag,
        "Cache-Control": headers.cache_control(shared if client_seconds is None else client_seconds, shared),
        "Cache-Status": "Tarry; hit; detail=constant",
        "Server-Timing": "tarry;desc=hit",
        "Accept-Ranges": "bytes",
        **headers.open_headers(content_type),
    }
    return conditional_response(request, HttpResponse(body, headers=fields), None)


_CONDITIONS = ("HTTP_IF_MATCH", "HTTP_IF_NONE_MATCH", "HTTP_IF_MODIFIED_SINCE", "HTTP_IF_UNMODIFIED_SINCE")


def conditional_response(
    request: HttpRequest, response: HttpResponse, last_modified: int | None, *, size_bytes: int | None = None
) -> HttpResponse:
    """Returns the response, or 304 without its body if the client's validators match (RFC 9110, 13.2.2), or 412.

    The response must have an ETag, the CORS fields and Cache-Status. `size_bytes` is the length of a body that is not
    in the response yet.
    """
    fields = response.headers
    if is_behind_nginx(request):
        size_bytes = len(response.content) if size_bytes is None else size_bytes
        modified, content_type = fields.get("Last-Modified", ""), fields.get("Content-Type", "")
        for name, value in headers.delivered_headers(modified, content_type, size_bytes).items():
            fields[name] = value
    if request.META.keys().isdisjoint(_CONDITIONS):
        return response
    answer = get_conditional_response(request, response["ETag"], last_modified, response)
    assert isinstance(answer, HttpResponse)
    if answer.status_code == 412:
        return problem_response(412, "The content has changed.", cache_status=response["Cache-Status"])
    for name in ("Cache-Status", headers.MODIFIED_FIELD, headers.VARY_FIELD, *headers.CORS_HEADERS):
        if name in fields:
            answer[name] = fields[name]
    return answer


def redirect_reply(address: str, wait_seconds: float | None, why: str, *, preference: str = "") -> ClientReply:
    """Returns 302, which no cache keeps. `preference` is the applied part of the client's."""
    fields = headers.uncached_headers(f"Tarry; fwd=miss; detail={why}", wait_seconds)
    return ClientReply(302, {**fields, **headers.preference_headers(preference), "Location": address})


def hand_over_response(ticket_query: str, least_version: int | None = None) -> HttpResponse:
    """Tells nginx to pass this request on to the waiting instance. The client does not see this answer.

    It has no field that nginx would add to the final answer, as Cache-Control or Content-Type. With `least_version` the
    waiting instance may deliver content of that version or a later one.
    """
    added = "" if least_version is None else f"&least_version={least_version}"
    response = HttpResponse(headers={"X-Accel-Redirect": headers.WAIT_LOCATION, "X-Ticket": ticket_query + added})
    del response["Content-Type"]
    return response


def problem_response(
    status: int,
    detail: str,
    *,
    wait_seconds: float | None = None,
    cache_status: str = "Tarry; fwd=miss",
    keep_seconds: int = 0,
) -> HttpResponse:
    """A problem+json answer. With `keep_seconds` caches keep it, and so it displaces their content."""
    response = as_response(problem_reply(status, detail, wait_seconds=wait_seconds))
    response["Cache-Status"] = cache_status
    if keep_seconds:
        response["Cache-Control"] = f"public, max-age={keep_seconds}"
    return response


def not_now_response(detail: str) -> HttpResponse:
    """Returns 503 for a second: this site's data cannot be read at the moment."""
    return problem_response(503, detail, wait_seconds=1)


def not_found_response(detail: str) -> HttpResponse:
    """Returns 404, kept for a second: long enough to displace content in caches under this address."""
    return problem_response(404, detail, cache_status="Tarry; fwd=bypass; detail=unknown", keep_seconds=1)


def read_only(view: View[Arguments, Response]) -> View[Arguments, Response | HttpResponse]:
    """Leaves GET and HEAD to the view, and answers all other methods. Such views change nothing: no CSRF check."""

    @wraps(view)
    def answered(request: HttpRequest, /, *given: Arguments.args, **named: Arguments.kwargs) -> Response | HttpResponse:
        return answer_other_method(request) or view(request, *given, **named)

    return csrf_exempt(answered)


def answer_other_method(request: HttpRequest) -> HttpResponse | None:
    """Answers any method but GET and HEAD. Returns None for these."""
    reply = other_method_reply(request.method or "GET")
    return as_response(reply) if reply else None


def other_method_reply(method: str) -> ClientReply | None:
    """The reply to any method but GET and HEAD; None for these."""
    match method:
        case "GET" | "HEAD":
            return None
        case "OPTIONS":
            return ClientReply(204, {**headers.PREFLIGHT_HEADERS, **headers.uncached_headers("Tarry; fwd=bypass")})
        case _:
            reply = problem_reply(405, "Only GET and HEAD are allowed.")
            return replace(reply, headers={**reply.headers, "Allow": headers.ALLOWED_METHODS})


def accepted_reply(
    ticket: Ticket, wait_seconds: float, *, why: str = "status", preference: str = "", waiting: str = ""
) -> ClientReply:
    """Returns 202 with the status address: the content is being prepared. `preference` is the applied one.

    `waiting` is the sentence for people, if it is known.
    """
    address = status_address(ticket, conf().RETRY_AFTER_SERVER)
    body = {
        "state": "preparing",
        **({"waiting": waiting} if waiting else {}),
        "expected": datetime.fromtimestamp(time.time() + wait_seconds, UTC).isoformat(timespec="seconds"),
        "status": address,
        "content": ticket.redirect,
    }
    fields = {
        **headers.uncached_headers(f"Tarry; fwd=miss; detail={why}", conf().again_seconds(wait_seconds)),
        **headers.preference_headers(preference),
        "Content-Type": "application/json",
        "Location": address,
    }
    return ClientReply(202, fields, json.dumps(body).encode() + b"\n")


def status_reply(
    ticket: Ticket, found: LookResult | Exception, *, waiting: str = "", preference: str = ""
) -> ClientReply:
    """Answers with the state of the content: being prepared, failed, or an answer is at its own address.

    A client of unknown content is sent to that address, too: a request there prepares it anew. `waiting` and
    `preference` are for content in preparation.
    """
    match found:
        case LookResult(content=content) if content is not None:
            return _see_other_reply(ticket, "ready")
        case LookResult(state=claim_state.WorkFailed(code, detail, wait_seconds)):
            return problem_reply(code, detail, wait_seconds=wait_seconds, why="failed")
        case Exception():
            return _unknown_state_reply()
        case LookResult(state=claim_state.ClaimTaken(_, wait_seconds)):
            return accepted_reply(ticket, wait_seconds, waiting=waiting, preference=preference)
        case LookResult(cache_is_away=True):
            return _unknown_state_reply()
        case LookResult():
            return _see_other_reply(ticket, found.word)


def _unknown_state_reply() -> ClientReply:
    return problem_reply(503, "The state is not available now. Try again later.", wait_seconds=1)


def _see_other_reply(ticket: Ticket, why: str) -> ClientReply:
    return ClientReply(303, {**headers.uncached_headers(f"Tarry; fwd=miss; detail={why}"), "Location": ticket.redirect})


def problem_reply(
    status: int, detail: str, *, wait_seconds: float | None = None, why: str = "", preference: str = ""
) -> ClientReply:
    """A problem+json answer that no cache keeps. `preference` is the applied part of the client's."""
    word = f"Tarry; fwd=miss; detail={why}" if why else "Tarry; fwd=miss"
    fields = headers.uncached_headers(word, wait_seconds) | headers.preference_headers(preference)
    title = PROBLEM_TITLES.get(status, "Error")
    body = json.dumps({"type": "about:blank", "title": title, "status": status, "detail": detail})
    return ClientReply(status, {**fields, "Content-Type": headers.PROBLEM_TYPE}, body.encode())


def as_response(reply: ClientReply) -> HttpResponse:
    return HttpResponse(reply.body, status=reply.status, headers=dict(reply.headers))
