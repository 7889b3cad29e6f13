"""Tickets that come to a Django process: the single-process development server waits itself, main never does."""

import asyncio
from functools import cache
from threading import Thread

from django.http import HttpRequest, HttpResponse

from . import claims, connections, methods
from . import status as statuses
from .conf import conf
from .errors import StoreUnavailable
from .instance import Instance, admit
from .looking import Found, look
from .replies import Reply, Request, as_response, problem
from .tickets import Ticket


@methods.read_only
def retry_after(request: HttpRequest) -> HttpResponse:
    """Waits in this request's thread, unless a waiting instance runs (RETRY_INSTANCE): then nobody waits here."""
    asked = _asked(request)
    return as_response(_turn_away(asked) if conf().RETRY_INSTANCE else _wait(asked))


@methods.read_only
def status(request: HttpRequest) -> HttpResponse:
    """How the ticket's content stands. Nobody waits for that, so that main can tell as well."""
    admitted = admit(_asked(request))
    return as_response(admitted if isinstance(admitted, Reply) else statuses.status(admitted, _found(admitted)))


def _found(ticket: Ticket) -> Found | StoreUnavailable:
    try:
        return connections.run(look(claims.looking(ticket.work_key), ticket.content_key, with_body=False))
    except StoreUnavailable as error:
        return error


def _asked(request: HttpRequest) -> Request:
    return Request(
        method=request.method or "GET",
        query=request.META.get("QUERY_STRING", "").encode("latin-1", "replace"),
        host=request.get_host(),
        fetch_mode=request.headers.get("Sec-Fetch-Mode"),
        accept=request.headers.get("Accept"),
        address=request.META.get("REMOTE_ADDR", ""),
    )


def _turn_away(asked: Request) -> Reply:
    admitted = admit(asked)
    if isinstance(admitted, Reply):
        return admitted
    return problem(503, "Nobody waits here. Ask for the content again.", wait_seconds=1)


def _wait(asked: Request) -> Reply:
    loop, instance = _running()
    reply = asyncio.run_coroutine_threadsafe(instance.answer(asked, _never), loop).result()
    assert reply is not None  # this client cannot be seen leaving
    return reply


@cache
def _running() -> tuple[asyncio.AbstractEventLoop, Instance]:
    loop = asyncio.new_event_loop()
    Thread(target=loop.run_forever, daemon=True, name="waiting").start()
    return loop, asyncio.run_coroutine_threadsafe(_opened(), loop).result()


async def _opened() -> Instance:
    return Instance()


async def _never() -> None:
    await asyncio.Event().wait()
