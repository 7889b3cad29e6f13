"""Serve or defer: the answer of main for a content key. Main neither waits for content nor prepares it.

A deferred client gets a ticket and goes to the waiting instance as it prefers and as its proxy allows.
"""

import logging
import math
import random
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TypeVar

from django.http import HttpRequest, HttpResponse

from . import claims, contents, headers, lanes, metrics, popularity, responses, stores
from .claim_state import read_claim_state
from .conf import conf
from .contents import Content
from .decision import (
    AWAY_SECONDS,
    LOOKED_AT,
    Decision,
    Defer,
    Fail,
    HandOver,
    Refuse,
    Serve,
    TakeBack,
    decide_answer,
    decide_without_cache,
    look_up_content,
)
from .errors import QueueUnavailable, StoreUnavailable
from .headers import Preferences, prefers_page, read_preferences
from .tickets import MAX_REDIRECT_CHARACTERS, Ticket, is_host, is_key, is_way_back, ticket_address, ticket_query
from .work import Work

X_FRONT_ASKED = "asked"
"""The value of X-Front for a request that nginx can hand over. Other requests have another value, or none."""

Response = TypeVar("Response")

_log = logging.getLogger("tarry.serving")


def serve_or_defer(
    request: HttpRequest,
    content_key: str,
    work: Work,
    *,
    version: int = 0,
    html: bool = False,
    host: str = "",
    as_is: bool = False,
) -> HttpResponse:
    """Returns the content at once, or a redirect to the waiting instance while `work` prepares it.

    `version` is that of the data: older content is stale. `html` is True for answers that people view as a page:
    after PAGE_PATIENCE_SECONDS they see the waiting page, which names `host`, the server that the work asks. It is
    empty for no server, and for one that is not to be named. `as_is` is True if the view adds nothing to the content:
    then the waiting instance may deliver pictures without asking main again, where RETRY_DELIVERY is `internal`.
    """
    if refusal := _request_refusal(request, content_key, work):
        return refusal
    looked_at = time.time()
    answer = _count_answer(find_answer(content_key, work, version, responses.client_network_of(request)))
    least_version = version if as_is else None
    response = _build_response(request, answer, content_key, work, host if html else None, least_version)
    if isinstance(answer, Defer) and answer.is_running and "Preference-Applied" not in response:
        request.META[LOOKED_AT] = looked_at
    return response


def deliver_or_defer(
    request: HttpRequest, content_key: str, work: Work, deliver: Callable[[HttpRequest, Content], Response]
) -> Response | HttpResponse:
    """Serves or defers content that only names the answer, as a file's digest does: `deliver` makes the answer."""
    if refusal := _request_refusal(request, content_key, work):
        return refusal
    answer = _count_answer(find_answer(content_key, work, 0, responses.client_network_of(request)))
    if isinstance(answer, Serve):
        return deliver(request, answer.content)
    return _build_response(request, answer, content_key, work)


def find_answer(content_key: str, work: Work, version: int, client: str = "") -> Decision:
    """Looks, claims and hands over as needed. `client` names the network that asks; empty: this site itself."""
    try:
        seen = stores.run_steps(contents.read_content(content_key))
    except StoreUnavailable:
        return _answer_without_cache(work)
    if seen and seen.is_fresh(version) and not _refreshes_early(seen, content_key):
        return Serve(seen, stale=False, why="hit")
    try:
        popular, message = ("", "") if seen else _describe_first_request(content_key, work)
        question = claims.begin_call(work, refresh=seen is not None, client=client, popular=popular, message=message)
        found = stores.run_steps(look_up_content(question, content_key, with_body=True, was_missing=seen is None))
        answer, action = decide_answer(found, version, seen)
        if isinstance(action, TakeBack):
            stores.execute_call(claims.abandon_call(work.key, action.token))
        elif isinstance(action, HandOver):
            _hand_over(work, action, work.lane if seen is None else work.refresh_lane)
    except (StoreUnavailable, QueueUnavailable) as error:
        return Serve(seen, not seen.is_fresh(version), "unreachable") if seen else _outage_refusal(error)
    return answer


def _describe_first_request(content_key: str, work: Work) -> tuple[str, str]:
    """The description of the popularity of content that is not there, and the message that its claim sends.

    Content that is there may be newer after the claim: then its work is taken back.
    """
    return popularity.describe_content(content_key), lanes.write_claim_message(work, work.lane)


def _answer_without_cache(work: Work) -> Decision:
    """Asks `state` alone, and notes there that contents may be lost. Claims nothing."""
    try:
        state = read_claim_state(stores.execute_call(claims.look_call(work.key, cache_is_away=True)))
    except StoreUnavailable:
        return Refuse(AWAY_SECONDS, "cache unreachable")
    return decide_without_cache(state)


def _request_refusal(request: HttpRequest, content_key: str, work: Work) -> HttpResponse | None:
    """The answer to a request that no ticket can be made for; None for all others."""
    if other := responses.answer_other_method(request):
        return other
    if not is_way_back(way_back(request)):
        return responses.problem_response(414, f"Addresses have at most {MAX_REDIRECT_CHARACTERS} characters.")
    if not (is_key(content_key) and is_key(work.key)):  # its ticket would be refused after all the work
        return responses.problem_response(400, "The name of this content is too long or unprintable.")
    return None


def _count_answer(answer: Decision) -> Decision:
    metrics.count_answer("main", type(answer).__name__.lower())
    return answer


def _outage_refusal(error: StoreUnavailable | QueueUnavailable) -> Refuse:
    if isinstance(error, QueueUnavailable) and error.retry_seconds is not None:
        return Refuse(error.retry_seconds, str(error).rstrip("."))
    return Refuse(1, "state unreachable")


def _refreshes_early(content: Content, content_key: str) -> bool:
    """Tells whether fresh content is refreshed now: by luck, or because it is popular and about to expire.

    Luck alone comes too late where nginx answers: main sees one request in each hot window.
    """
    if content.refreshes_early(1 - random.random()):
        return True
    return content.is_about_to_expire(conf().HOT_SECONDS) and popularity.is_popular(content_key)


def _hand_over(work: Work, action: HandOver, lane: str) -> None:
    try:
        lanes.publish_work(work.task, work.key, action.token, work.arguments, lane)
    except QueueUnavailable as error:
        if error.retry_seconds is None:
            _log.warning("not handed over", extra={"work": work.key, "error": str(error)})
        if action.ours:  # else its first copy is still in a lane
            stores.execute_call(claims.abandon_call(work.key, action.token))
        raise


def _build_response(  # noqa: PLR0917  # the parts of an answer
    request: HttpRequest,
    answer: Decision,
    content_key: str,
    work: Work,
    page: str | None = None,
    least_version: int | None = None,
) -> HttpResponse:
    match answer:
        case Serve(content, stale, why):
            return responses.content_response(request, content, stale=stale, why=why, now=datetime.now(UTC))
        case Fail(status, detail, wait_seconds):
            keep_seconds = 1 if status == 404 else 0
            return responses.problem_response(
                status,
                detail,
                wait_seconds=wait_seconds,
                cache_status="Tarry; fwd=miss; detail=failed",
                keep_seconds=keep_seconds,
            )
        case Refuse(wait_seconds, why):
            detail, word = f"Try again later: {why}.", f'Tarry; fwd=miss; detail="{why}"'
            return responses.problem_response(503, detail, wait_seconds=wait_seconds, cache_status=word)
        case Defer() as defer:
            return _deferral_response(request, content_key, work.key, defer, page, least_version)


def _deferral_response(  # noqa: PLR0917  # as above
    request: HttpRequest, content_key: str, work_key: str, answer: Defer, page: str | None, least_version: int | None
) -> HttpResponse:
    """Returns 202 or 503 if the client wants no wait, else the way to the waiting instance.

    `page` is None for content that people do not view as a page; else it is the host for the waiting page, or empty.
    `least_version` is the version of content that the waiting instance may deliver; None if it may not.
    """
    wanted = read_preferences(request.headers.get("Prefer"))
    ticket = _make_ticket(request, content_key, work_key, answer, wanted)
    if wanted.is_immediate:
        return _immediate_response(ticket, answer, wanted)
    if page is not None and not wanted.respond_async and _is_for_a_person(request):
        ticket = replace(ticket, page=page if is_host(page) else "")
    if conf().RETRY_DELIVERY == "internal" and request.headers.get("X-Front") == X_FRONT_ASKED:
        return responses.hand_over_response(ticket_query(ticket), least_version)
    applied = headers.preference_text(None, ticket.wait_seconds)
    address = ticket_address(ticket, conf().RETRY_AFTER_SERVER)
    reply = responses.redirect_reply(address, answer.wait_seconds, answer.why, preference=applied)
    return responses.as_response(reply)


def _immediate_response(ticket: Ticket, answer: Defer, wanted: Preferences) -> HttpResponse:
    """Answers a client that does not wait at all. The preparation goes on."""
    applied = headers.preference_text(wanted.respond_async, wanted.wait_seconds)
    if wanted.respond_async:
        reply = responses.accepted_reply(ticket, answer.wait_seconds, why=answer.why, preference=applied)
    else:
        detail = "The content is being prepared, and you prefer not to wait."
        again_seconds = conf().again_seconds(answer.wait_seconds)
        reply = responses.problem_reply(503, detail, wait_seconds=again_seconds, preference=applied)
    return responses.as_response(reply)


def _make_ticket(request: HttpRequest, content_key: str, work_key: str, answer: Defer, wanted: Preferences) -> Ticket:
    now = math.floor(time.time() * 1000) / 1000
    return Ticket(
        redirect=way_back(request),
        retry_after=now + answer.wait_seconds,
        content_key=content_key,
        work_key=work_key,
        issued_at=int(now),
        deadline=None if wanted.wait_seconds is None else now + wanted.wait_seconds,
        respond_async=wanted.respond_async,
        earliest=now + answer.least_seconds if answer.least_seconds else None,
    )


def _is_for_a_person(request: HttpRequest) -> bool:
    return prefers_page(request.headers.get("Sec-Fetch-Mode"), request.headers.get("Accept"))


def way_back(request: HttpRequest) -> str:
    """The address that the client returns to: a path, or with the site's name if it waits at another site."""
    path = request.get_full_path()
    return path if conf().RETRY_AFTER_SERVER.startswith("/") else f"{public_url(request)}{path}"


def public_url(request: HttpRequest) -> str:
    """This site's address without a path: PUBLIC_URL, else the (checked) Host of the request."""
    return conf().PUBLIC_URL.rstrip("/") or f"{request.scheme}://{request.get_host()}"
