"""Views for tickets that reach a Django process.

The development server of one process waits in them; main never waits.
"""

import asyncio
from functools import cache
from threading import Thread

from django.http import HttpRequest, HttpResponse

from . import line, responses, stores
from .conf import conf
from .errors import StoreUnavailable
from .instance import WaitingInstance, admit_ticket
from .responses import ClientReply, ClientRequest, as_response, problem_reply


@responses.read_only
def retry_after(request: HttpRequest) -> HttpResponse:
    """Waits in this request's thread, unless a waiting instance runs (RETRY_INSTANCE): then no client waits here."""
    asked = _read_request(request)
    return as_response(_turn_away(asked) if conf().RETRY_INSTANCE else _wait_in_thread(asked))


@responses.read_only
def retry_status(request: HttpRequest) -> HttpResponse:
    """Tells the state of the ticket's content. Main answers it as well: it never waits, whatever the client prefers."""
    ticket = admit_ticket(_read_request(request))
    if isinstance(ticket, ClientReply):
        return as_response(ticket)
    try:
        state = stores.run_steps(line.look_up_ticket(ticket))
        return as_response(responses.status_reply(ticket, state.found, waiting=state.waiting))
    except StoreUnavailable as error:
        return as_response(responses.status_reply(ticket, error))


def _read_request(request: HttpRequest) -> ClientRequest:
    return ClientRequest(
        method=request.method or "GET",
        query=request.META.get("QUERY_STRING", "").encode("latin-1", "replace"),
        host=request.get_host(),
        fetch_mode=request.headers.get("Sec-Fetch-Mode"),
        accept=request.headers.get("Accept"),
        address=request.META.get("REMOTE_ADDR", ""),
    )


def _turn_away(asked: ClientRequest) -> ClientReply:
    admitted = admit_ticket(asked)
    if isinstance(admitted, ClientReply):
        return admitted
    return problem_reply(503, "No request waits here. Request the content again.", wait_seconds=1)


def _wait_in_thread(asked: ClientRequest) -> ClientReply:
    loop, instance = _running_instance()
    reply = asyncio.run_coroutine_threadsafe(instance.answer(asked, _receive_never), loop).result()
    assert reply is not None  # this client cannot be seen leaving
    return reply


@cache
def _running_instance() -> tuple[asyncio.AbstractEventLoop, WaitingInstance]:
    loop = asyncio.new_event_loop()
    Thread(target=loop.run_forever, daemon=True, name="waiting").start()
    return loop, asyncio.run_coroutine_threadsafe(_open_instance(), loop).result()


async def _open_instance() -> WaitingInstance:
    return WaitingInstance()


async def _receive_never() -> None:
    await asyncio.Event().wait()
