"""The waiting instance within the single-process development server: the same core, in a thread of its own."""

import asyncio
from functools import cache
from threading import Thread

from django.http import HttpRequest, HttpResponse

from .instance import Asked, Instance


def retry_after(request: HttpRequest) -> HttpResponse:
    """Waits in this request's thread. Not for production: there the waiting instance is a process of its own."""
    asked = Asked(
        method=request.method or "GET",
        query=request.META.get("QUERY_STRING", "").encode("latin-1", "replace"),
        host=request.get_host(),
        fetch_mode=request.headers.get("Sec-Fetch-Mode"),
        accept=request.headers.get("Accept"),
        address=request.META.get("REMOTE_ADDR", ""),
    )
    loop, instance = _running()
    reply = asyncio.run_coroutine_threadsafe(instance.answer(asked, _never), loop).result()
    assert reply is not None  # this client cannot be seen leaving
    return HttpResponse(reply.body, status=reply.status, headers=dict(reply.headers))


@cache
def _running() -> tuple[asyncio.AbstractEventLoop, Instance]:
    loop = asyncio.new_event_loop()
    Thread(target=loop.run_forever, daemon=True, name="waiting").start()
    return loop, asyncio.run_coroutine_threadsafe(_opened(), loop).result()


async def _opened() -> Instance:
    return Instance()


async def _never() -> None:
    await asyncio.Event().wait()
