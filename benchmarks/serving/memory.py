"""The memory of a waiting client in the waiting instance."""

from collections.abc import Iterator
from uuid import uuid4

from tests.support.stack import Stack

from ..figures import Figure, Note
from ..load.crowd import PATIENCE, Crowd
from ..load.event_loop import run
from ..machine import KILOBYTE, Memory, allowed_clients, memory

CLIENTS = 8000
KILOBYTES_PER_CLIENT = 14
FIRST = 50
"""These come and go before the first reading, so that what is loaded once is not counted."""


def measure() -> Iterator[Figure | Note]:
    """Growth of the waiting instance's own memory with so many clients waiting in it."""
    clients, notes = allowed_clients(CLIENTS)
    yield from notes
    with Stack(**PATIENCE) as stack:
        run(gathered(stack, FIRST))
        before = memory(stack.pids("retry"))
        grown = run(gathered(stack, clients))
    own, resident = ((after - then) / clients / KILOBYTE for after, then in _pairs(grown, before))
    yield Figure(f"memory per waiting client, {clients:,} clients", own, "KB", at_most=KILOBYTES_PER_CLIENT)
    yield Figure("the same by resident set", resident, "KB")


async def gathered(stack: Stack, size: int) -> Memory:
    """The memory of the waiting instance with so many clients waiting in it. They leave before it returns."""
    name = uuid4().hex
    crowd = Crowd(stack, [f"/slow/{name}?gated=1"], size, redirects=1)
    try:
        await crowd.gather()
        return memory(stack.pids("retry"))
    finally:
        stack.open_gate(name)
        await crowd.visits()
        crowd.leave()


def _pairs(after: Memory, before: Memory) -> Iterator[tuple[int, int]]:
    yield after.own, before.own
    yield after.resident, before.resident
