"""How main sends a client to wait: as it prefers, as its proxy can, and with a ticket. Decides nothing of the work."""

import math
import time

from django.http import HttpRequest, HttpResponse

from . import headers, replies, responses, status
from .conf import conf
from .deciding import Defer
from .preferences import Preferences, is_navigation, preferences
from .tickets import Ticket, ticket_address, ticket_query

ASKED = "asked"
"""What nginx says (X-Front) of a request that it can hand over; of others it says something else, or nothing."""


def deferred(request: HttpRequest, content_key: str, work_key: str, answer: Defer, *, html: bool) -> HttpResponse:
    """202 or 503 where no wait is wanted, the waiting page for people, else the way to the waiting instance."""
    wanted = preferences(request.headers.get("Prefer"))
    ticket = _ticket(request, content_key, work_key, answer.wait_seconds, wanted)
    if wanted.is_immediate:
        return _at_once(ticket, answer, wanted)
    if html and is_navigation(request.headers.get("Sec-Fetch-Mode"), request.headers.get("Accept")):
        return responses.waiting_page(request.get_full_path(), conf().again_seconds(answer.wait_seconds), answer.why)
    if conf().RETRY_DELIVERY == "internal" and request.headers.get("X-Front") == ASKED:
        return responses.hand_over(ticket_query(ticket))
    applied = headers.preference(None, ticket.wait_seconds)
    address = ticket_address(ticket, conf().RETRY_AFTER_SERVER)
    return responses.redirect(address, answer.wait_seconds, answer.why, preference=applied)


def way_back(request: HttpRequest) -> str:
    """Where the client goes back to: a path here, or with the site's name when it waits at another."""
    path = request.get_full_path()
    return path if conf().RETRY_AFTER_SERVER.startswith("/") else f"{public_url(request)}{path}"


def public_url(request: HttpRequest) -> str:
    """This site's address without a path: PUBLIC_URL, else the (checked) Host that was asked for."""
    return conf().PUBLIC_URL.rstrip("/") or f"{request.scheme}://{request.get_host()}"


def _ticket(
    request: HttpRequest, content_key: str, work_key: str, expected_seconds: float, wanted: Preferences
) -> Ticket:
    now = math.floor(time.time() * 1000) / 1000
    return Ticket(
        redirect=way_back(request),
        retry_after=now + expected_seconds,
        content_key=content_key,
        work_key=work_key,
        issued_at=int(now),
        deadline=None if wanted.wait_seconds is None else now + wanted.wait_seconds,
        respond_async=wanted.respond_async,
    )


def _at_once(ticket: Ticket, answer: Defer, wanted: Preferences) -> HttpResponse:
    """The answer to a client that does not wait at all. The preparation goes on."""
    applied = headers.preference(wanted.respond_async, wanted.wait_seconds)
    if wanted.respond_async:
        reply = status.accepted(ticket, answer.wait_seconds, why=answer.why, preference=applied)
    else:
        detail = "It is being prepared, and you prefer not to wait."
        reply = replies.problem(503, detail, wait_seconds=conf().again_seconds(answer.wait_seconds), preference=applied)
    return replies.as_response(reply)
