"""Requests that are sent when they are due, regardless of earlier ones, over as many connections as needed.

Free connections are used again. A request that could not be sent in time is not sent.
"""

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from .clients import Client, Visit, connect, follow


@dataclass(frozen=True, slots=True)
class Sent:
    """A visit, and when its first request was sent, in Unix seconds: never, where there was no connection to be had."""

    visit: Visit
    at: float = math.inf


async def flood(host: str, paths: Callable[[], str], rate: float, seconds: float) -> list[Sent]:
    """Asks so often a second for so long; redirects are followed. Returns when all is answered."""
    idle: list[Client] = []
    began, asking = time.time(), []
    for place in range(round(rate * seconds)):
        await asyncio.sleep(max(0.0, began + place / rate - time.time()))
        if time.time() > began + seconds:
            break
        asking.append(asyncio.create_task(_ask(host, paths(), idle)))
    sent = await asyncio.gather(*asking)
    for client in idle:
        client.close()
    return sent


async def _ask(host: str, path: str, idle: list[Client]) -> Sent:
    try:
        client = idle.pop() if idle else await connect(host)
    except OSError as error:
        return Sent(Visit(error=str(error)))
    at = time.time()
    visit = await follow(client, path)
    if visit.error:
        client.close()
    else:
        idle.append(client)
    return Sent(visit, at)
