"""A request, as far as the waiting instance needs it, and an answer for any kind of server."""

from collections.abc import Mapping
from dataclasses import dataclass

from django.http import HttpResponse

from . import headers, responses


@dataclass(frozen=True, slots=True)
class Request:
    """A request. `address` is the client's, for its own limit; `front` what nginx says of it (X-Front)."""

    method: str
    query: bytes
    host: str
    fetch_mode: str | None = None
    accept: str | None = None
    address: str = ""
    front: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer for ASGI and for Django."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""


def problem(status: int, detail: str, *, wait_seconds: float | None = None, preference: str = "") -> Reply:
    """A problem+json answer that nobody keeps. `preference` is what was applied of the client's."""
    fields = headers.uncached("Tarry; fwd=miss", wait_seconds) | headers.applied(preference)
    body = responses.problem_body(status, detail).encode()
    return Reply(status, {**fields, "Content-Type": "application/problem+json"}, body)


def as_response(reply: Reply) -> HttpResponse:
    return HttpResponse(reply.body, status=reply.status, headers=dict(reply.headers))
