"""A crowd that goes back for its content all at once: the requests of it that reach main."""

import asyncio
from collections.abc import Iterator
from uuid import uuid4

from tests.flows.slow.slow_content import SlowContent
from tests.support.stack import Stack

from ..figures import Figure, Note
from ..load.clients import Visit
from ..load.crowd import PATIENCE, Crowd
from ..load.event_loop import run
from ..machine import allowed_clients
from .wake import finished, last_redirect

CLIENTS = 8000
MAIN_REQUESTS = 50
SIZE = 8000


def measure() -> Iterator[Figure | Note]:
    """Errors among the clients, and main's own count of requests from the release until the last has its content."""
    clients, notes = allowed_clients(CLIENTS)
    yield from notes
    name = uuid4().hex
    with Stack(**PATIENCE) as stack:
        visits, at_main = run(_herd(stack, name, clients))
        ready = finished(stack, name)
        last, through = last_redirect(visits) - ready, max(v.answers[-1].at for v in visits if v.answers) - ready
    body = SlowContent(name, size=SIZE).body
    wrong = [visit for visit in visits if visit.status != 200 or visit.answers[-1].body != body]
    yield from described(wrong)
    yield Figure(f"errors among {clients:,} clients that follow the redirect", len(wrong), at_most=0)
    yield Figure("requests that reached main, by its own count", at_main, at_most=MAIN_REQUESTS)
    yield Figure("readiness to the last one redirected, the others on their way back", last, "s")
    yield Figure("readiness to the last one served", through, "s")


def described(wrong: list[Visit]) -> Iterator[Note]:
    """The first few failures."""
    for visit in wrong[:3]:
        yield Note(f"error: {visit}")


async def _herd(stack: Stack, name: str, size: int) -> tuple[list[Visit], int]:
    crowd = Crowd(stack, [f"/slow/{name}?gated=1&size={SIZE}"], size)
    try:
        await crowd.gather()
        await asyncio.sleep(1)
        before = _main_requests(stack)
        stack.open_gate(name)
        visits = await crowd.visits()
        return visits, _main_requests(stack) - before - 1  # the first reading itself was answered after it was taken
    finally:
        crowd.leave()


def _main_requests(stack: Stack) -> int:
    return int(stack.metric("tarry_request_seconds_count"))
