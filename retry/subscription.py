"""Subscriptions, kept alive: lost connections, restarts and silent peers included. What waiting hears by its own."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from redis.exceptions import RedisError

from .claims import FINISHED_CHANNEL
from .connections import async_client
from .waiting import Waiting

SILENCE_SECONDS = 5.0
AGAIN_SECONDS = 0.2
LOOK_AGAIN_SECONDS = 2.0

Hear = Callable[[bytes | None], None]
"""Takes each message; None stands for a new subscription: what was told before is lost."""

_log = logging.getLogger("tarry.subscribing")


async def listen_forever(channel: str, hear: Hear) -> None:
    """Passes on what is published in a channel of `state`. Does not return; ends by cancellation."""
    is_lost = False

    def heard(data: bytes | None) -> None:
        nonlocal is_lost
        is_lost = False
        hear(data)

    while True:
        try:
            await _listen(channel, heard)
        except (RedisError, OSError) as error:
            if not is_lost:  # once for each outage
                _log.warning("subscription lost", extra={"channel": channel, "error": str(error)})
            is_lost = True
        await asyncio.sleep(AGAIN_SECONDS)


async def hear_ends_forever(waiting: Waiting) -> None:
    """Passes every end of work on to those who wait. Does not return; ends by cancellation."""
    await listen_forever(FINISHED_CHANNEL, partial(_take, waiting))


async def look_again_forever(waiting: Waiting) -> None:
    """Looks at all that is waited for now and then: claims can be lost with a server's data."""
    while True:
        await asyncio.sleep(LOOK_AGAIN_SECONDS)
        waiting.look_again()


async def _listen(channel: str, hear: Hear) -> None:
    client = async_client("state")
    try:
        async with client.pubsub() as subscription:
            await subscription.subscribe(channel)
            asked = False
            while True:
                message = await subscription.get_message(timeout=SILENCE_SECONDS)
                if message is None and asked:
                    raise RedisError("no answer to a ping")  # a peer that is gone without a word
                if message is None:
                    await subscription.ping()
                elif message["type"] == "subscribe":
                    hear(None)
                elif message["type"] == "message":
                    hear(message["data"])
                asked = message is None
    finally:
        await client.aclose()


def _take(waiting: Waiting, data: bytes | None) -> None:
    if data is None:
        waiting.look_again()  # what ended while nobody listened
    else:
        outcome, _, work_key = data.decode().partition(" ")
        waiting.finished(work_key, outcome)
