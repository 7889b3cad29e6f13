"""Tickets that come to a Django process: the single-process development server waits itself, main never does."""

import asyncio
from functools import cache
from threading import Thread

from django.http import HttpRequest, HttpResponse

from .conf import conf
from .instance import Asked, Instance, Reply, admit, problem


def retry_after(request: HttpRequest) -> HttpResponse:
    """Waits in this request's thread, unless a waiting instance runs (RETRY_INSTANCE): then nobody waits here."""
    asked = Asked(
        method=request.method or "GET",
        query=request.META.get("QUERY_STRING", "").encode("latin-1", "replace"),
        host=request.get_host(),
        fetch_mode=request.headers.get("Sec-Fetch-Mode"),
        accept=request.headers.get("Accept"),
        address=request.META.get("REMOTE_ADDR", ""),
    )
    reply = _turn_away(asked) if conf().RETRY_INSTANCE else _wait(asked)
    return HttpResponse(reply.body, status=reply.status, headers=dict(reply.headers))


def _turn_away(asked: Asked) -> Reply:
    admitted = admit(asked)
    if isinstance(admitted, Reply):
        return admitted
    return problem(503, "Nobody waits here. Ask for the content again.", wait_seconds=1)


def _wait(asked: Asked) -> Reply:
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
