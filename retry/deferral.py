"""Serve or defer: what main does for a key. It never waits for content and never prepares it."""

import logging
import random
from collections.abc import Callable
from typing import TypeVar

from django.http import HttpRequest, HttpResponse

from . import claims, connections, contents, deferring, lanes, methods, observing, popularity, responses
from .conf import conf
from .contents import Content
from .deciding import Answer, Defer, Fail, HandOver, Refuse, Serve, TakeBack, decide
from .errors import QueueUnavailable, StoreUnavailable
from .looking import look
from .tickets import MAX_REDIRECT_CHARACTERS, is_key, is_way_back
from .work import Work

Response = TypeVar("Response")

_log = logging.getLogger("tarry.serving")


def serve_or_defer(
    request: HttpRequest, content_key: str, work: Work, *, version: int = 0, html: bool = False
) -> HttpResponse:
    """The content at once, or a redirect to the waiting instance while `work` prepares it.

    `version` is that of the data: older content is stale. `html` says that people look at the
    answer as a page: navigations get the waiting page instead of the redirect.
    """
    if refusal := _refused(request, content_key, work):
        return refusal
    answer = _counted(find_answer(content_key, work, version))
    return _response(request, answer, content_key, work, html)


def deliver_or_defer(
    request: HttpRequest, content_key: str, work: Work, deliver: Callable[[HttpRequest, Content], Response]
) -> Response | HttpResponse:
    """The same for content that only says what there is, as the digest of a file: `deliver` answers with that."""
    if refusal := _refused(request, content_key, work):
        return refusal
    answer = _counted(find_answer(content_key, work, 0))
    if isinstance(answer, Serve):
        return deliver(request, answer.content)
    return _response(request, answer, content_key, work, html=False)


def _refused(request: HttpRequest, content_key: str, work: Work) -> HttpResponse | None:
    """What is answered whatever there is; None for what a ticket can be made of."""
    if other := methods.answer_other(request):
        return other
    if not is_way_back(deferring.way_back(request)):
        return responses.problem(414, f"Addresses have at most {MAX_REDIRECT_CHARACTERS} characters.")
    if not (is_key(content_key) and is_key(work.key)):  # its ticket would be refused after all the work
        return responses.problem(400, "What this address asks for has a name that is too long or unprintable.")
    return None


def _counted(answer: Answer) -> Answer:
    observing.answered("main", type(answer).__name__.lower())
    return answer


def find_answer(content_key: str, work: Work, version: int) -> Answer:
    """Looks, claims and hands over as needed. Does not know of requests."""
    try:
        seen = connections.run(contents.read(content_key))
    except StoreUnavailable:
        return Refuse(1, "cache unreachable")
    if seen and seen.is_fresh(version) and not _refreshes_early(seen, content_key):
        return Serve(seen, stale=False, why="hit")
    try:
        question = claims.beginning(work, refresh=seen is not None)
        answer, action = decide(connections.run(look(question, content_key, with_body=True)), version, seen)
        if isinstance(action, TakeBack):
            connections.execute(claims.abandoning(work.key, action.token))
        elif isinstance(action, HandOver):
            _hand_over(work, action, work.lane if seen is None else work.refresh_lane)
    except (StoreUnavailable, QueueUnavailable) as error:
        return Serve(seen, not seen.is_fresh(version), "unreachable") if seen else _refusal(error)
    return answer


def _refusal(error: StoreUnavailable | QueueUnavailable) -> Refuse:
    if isinstance(error, QueueUnavailable) and error.retry_seconds is not None:
        return Refuse(error.retry_seconds, str(error).rstrip("."))
    return Refuse(1, "state unreachable")


def _refreshes_early(content: Content, content_key: str) -> bool:
    """Whether fresh content is refreshed now: by luck, or because it is popular and about to expire.

    Luck alone comes too late where nginx answers: main sees one request in each hot window.
    """
    if content.refreshes_early(1 - random.random()):
        return True
    return content.is_about_to_expire(conf().HOT_SECONDS) and popularity.is_popular(content_key)


def _hand_over(work: Work, action: HandOver, lane: str) -> None:
    try:
        lanes.publish(work.task, work.key, action.token, work.arguments, lane)
    except QueueUnavailable as error:
        if error.retry_seconds is None:
            _log.warning("not handed over", extra={"work": work.key, "error": str(error)})
        if action.ours:  # else its first copy is still in a lane
            connections.execute(claims.abandoning(work.key, action.token))
        raise


def _response(request: HttpRequest, answer: Answer, content_key: str, work: Work, html: bool) -> HttpResponse:
    match answer:
        case Serve(content, stale, why):
            return responses.content_response(request, content, stale=stale, why=why, now=responses.utc_now())
        case Fail(status, detail, wait_seconds):
            keep_seconds = 1 if status == 404 else 0
            return responses.problem(status, detail, wait_seconds=wait_seconds, keep_seconds=keep_seconds)
        case Refuse(wait_seconds, why):
            word = f'Tarry; fwd=miss; detail="{why}"'
            return responses.problem(503, f"Try again later: {why}.", wait_seconds=wait_seconds, cache_status=word)
        case Defer() as defer:
            return deferring.deferred(request, content_key, work.key, defer, html=html)
