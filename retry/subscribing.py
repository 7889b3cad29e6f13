"""The process's one subscription, kept alive: lost connections, restarts and silent peers included."""

import asyncio
import logging

from redis.exceptions import RedisError

from .claims import FINISHED_CHANNEL
from .connections import async_client
from .waiting import Waiting

SILENCE_SECONDS = 5.0
AGAIN_SECONDS = 0.2
LOOK_AGAIN_SECONDS = 2.0

_log = logging.getLogger("tarry.subscribing")


async def listen_forever(waiting: Waiting) -> None:
    """Passes every end of work on to those who wait. Does not return; ends by cancellation."""
    while True:
        try:
            await _listen(waiting)
        except (RedisError, OSError) as error:
            _log.warning("subscription lost", extra={"error": str(error)})
        await asyncio.sleep(AGAIN_SECONDS)


async def look_again_forever(waiting: Waiting) -> None:
    """Looks at all that is waited for now and then: claims can be lost with a server's data."""
    while True:
        await asyncio.sleep(LOOK_AGAIN_SECONDS)
        waiting.look_again()


async def _listen(waiting: Waiting) -> None:
    client = async_client("state")
    try:
        async with client.pubsub() as subscription:
            await subscription.subscribe(FINISHED_CHANNEL)
            asked = False
            while True:
                message = await subscription.get_message(timeout=SILENCE_SECONDS)
                if message is None and asked:
                    raise RedisError("no answer to a ping")  # a peer that is gone without a word
                if message is None:
                    await subscription.ping()
                asked = message is None
                _take(waiting, message)
    finally:
        await client.aclose()


def _take(waiting: Waiting, message: "dict[str, object] | None") -> None:
    kind = message["type"] if message else None
    if kind == "subscribe":
        waiting.look_again()  # what ended while nobody listened
    elif message and kind == "message":
        data = message["data"]
        assert isinstance(data, bytes)
        outcome, _, work_key = data.decode().partition(" ")
        waiting.finished(work_key, outcome)
