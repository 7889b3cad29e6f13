"""Requests at a constant rate, regardless of their answers: a slow answer does not spare the site the next request."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from .clients import ANSWER_SECONDS, Client, Visit, connect, follow


@dataclass(frozen=True, slots=True)
class Timed:
    """One visit and how long it took from the moment it was due or, when that was later, sent."""

    visit: Visit
    seconds: float


async def ask_steadily(
    host: str, paths: Sequence[str], *, rate: float, connections: int, patience_seconds: float = ANSWER_SECONDS
) -> list[Timed]:
    """Asks for the paths in turn, `rate` of them a second, over so many connections; redirects are followed.

    A request without an answer so long after it was due is given up, with its connection.
    """
    clients = await asyncio.gather(*(connect(host) for _ in range(connections)))
    began = time.time() + 0.1
    due = [(began + place / rate, path) for place, path in enumerate(paths)]
    shares = (due[place::connections] for place in range(connections))
    asking = (_ask(client, share, patience_seconds) for client, share in zip(clients, shares, strict=True))
    timed = await asyncio.gather(*asking)
    return [one for share in timed for one in share]


async def _ask(client: Client, share: Sequence[tuple[float, str]], patience_seconds: float) -> list[Timed]:
    done = []
    for due, path in share:
        # The timer's own lateness, up to a millisecond, is none of the site's; an answer that is still out is.
        free_in_time = time.time() <= due
        await asyncio.sleep(max(0.0, due - time.time()))
        began = time.time() if free_in_time else due
        visit = await follow(client, path, seconds=max(0.0, due + patience_seconds - time.time()))
        done.append(Timed(visit, time.time() - began))
        if visit.error:  # its answer may still come: no other may be asked for on this connection
            client.close()
            client = await connect(client.host)
    client.close()
    return done
