"""Many clients that ask for one cold content in the same moment."""

import asyncio
import time
from collections.abc import Iterator
from uuid import uuid4

from tests.flows.slow.slow_content import SlowContent
from tests.support.stack import Stack

from ..figures import Figure, Note
from ..load.clients import Client, Visit, connect, follow
from ..load.event_loop import run
from ..machine import allowed_clients
from .herd import described

CLIENTS = 2000
CONNECTING_AT_ONCE = 200
SIZE = 8000


def measure() -> Iterator[Figure | Note]:
    """Preparations and errors, when all send their request at once and follow the answers."""
    clients, notes = allowed_clients(CLIENTS)
    yield from notes
    name = uuid4().hex
    with Stack() as stack:
        _, visits = run(at_once(stack.host, f"/slow/{name}?seconds=1&size={SIZE}", clients))
        prepared = stack.executions(name)
    body = SlowContent(name, size=SIZE).body
    wrong = [visit for visit in visits if visit.status != 200 or visit.answers[-1].body != body]
    yield from described(wrong)
    yield Figure(f"preparations for {clients:,} clients at once", prepared, at_most=1, at_least=1)
    yield Figure("errors among them", len(wrong), at_most=0)


async def at_once(host: str, path: str, size: int) -> tuple[float, list[Visit]]:
    """Connects so many clients, then all ask for the path. Returns that time, in Unix seconds, and all answers."""
    clients: list[Client] = []
    while len(clients) < size:
        some = min(CONNECTING_AT_ONCE, size - len(clients))
        clients += await asyncio.gather(*(connect(host) for _ in range(some)))
    began = time.time()
    visits = await asyncio.gather(*(follow(client, path) for client in clients))
    for client in clients:
        client.close()
    return began, visits
