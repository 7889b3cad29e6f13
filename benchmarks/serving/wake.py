"""The time until the last client of a crowd has heard that its content is there."""

from collections.abc import Iterator
from uuid import uuid4

from tests.support.stack import Stack

from ..figures import Figure, Note, median
from ..load.clients import Visit
from ..load.crowd import PATIENCE, Crowd
from ..load.event_loop import run
from ..machine import allowed_clients

CLIENTS = 8000
SECONDS = 1.5
ROUNDS = 3


def measure() -> Iterator[Figure | Note]:
    """From the end of the preparation to the last redirect's arrival, median of some rounds."""
    clients, notes = allowed_clients(CLIENTS)
    yield from notes
    with Stack(**PATIENCE) as stack:
        rounds = [run(woken(stack, clients)) for _ in range(ROUNDS)]
    yield Note(f"last redirected, seconds by round: {', '.join(f'{last:.2f}' for last, _ in rounds)}")
    yield Figure("clients that were not redirected", sum(errors for _, errors in rounds), at_most=0)
    last = median([last for last, _ in rounds])
    yield Figure(f"readiness to the last of {clients:,} redirected", last, "s", at_most=SECONDS)


async def woken(stack: Stack, size: int) -> tuple[float, int]:
    """Seconds from readiness to the last of so many clients redirected, and how many were not."""
    name = uuid4().hex
    crowd = Crowd(stack, [f"/slow/{name}?gated=1&size=8000"], size, redirects=1)
    try:
        await crowd.gather()
        stack.open_gate(name)
        visits = await crowd.visits()
    finally:
        crowd.leave()
    return last_redirect(visits) - finished(stack, name), sum(visit.redirects != 2 for visit in visits)


def last_redirect(visits: list[Visit]) -> float:
    """The time when the last client heard from the waiting instance, in Unix seconds."""
    return max(visit.answers[1].at for visit in visits if len(visit.answers) > 1)


def finished(stack: Stack, name: str) -> float:
    """The time when the preparer was done, a moment before the content was stored and its end published."""
    return max(float(event["time"]) for event in stack.events(name) if event["event"] == "finish")
