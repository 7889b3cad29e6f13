"""Keeps a Redis subscription alive through lost connections, restarts and silent peers.

Passes the ends of work on to the waiting clients.
"""

import asyncio
import logging
import math
from collections.abc import Callable
from typing import Any

from redis.exceptions import RedisError

from .claims import FINISHED_CHANNEL
from .rooms import WaitingClients
from .servers import ClusterClient
from .stores import async_client

SILENCE_SECONDS = 5.0
RETRY_PAUSE_SECONDS = 0.2
LOOK_AGAIN_SECONDS = 2.0

MessageHandler = Callable[[bytes | None], None]
"""Takes each message; None stands for a new subscription: messages before it are lost."""

_log = logging.getLogger("tarry.subscribing")


async def listen_forever(channel: str, hear: MessageHandler) -> None:
    """Passes on the messages of a channel of `state`. Does not return; ends by cancellation."""
    is_lost = False

    def heard(data: bytes | None) -> None:
        nonlocal is_lost
        is_lost = False
        hear(data)

    while True:
        try:
            await _listen_once(channel, heard)
        except (RedisError, OSError) as error:
            if not is_lost:  # once for each outage
                _log.warning("subscription lost", extra={"channel": channel, "error": str(error)})
            is_lost = True
        await asyncio.sleep(RETRY_PAUSE_SECONDS)


async def hear_ends_forever(waiting: WaitingClients) -> None:
    """Passes every end of work on to the waiting clients. Does not return; ends by cancellation."""

    def pass_on(data: bytes | None) -> None:
        if data is None:
            waiting.look_again()  # work may have ended while there was no subscription
        else:
            outcome, _, work_key = data.decode().partition(" ")
            waiting.finished(work_key, outcome)

    await listen_forever(FINISHED_CHANNEL, pass_on)


async def look_again_forever(waiting: WaitingClients) -> None:
    """Looks at all rooms every LOOK_AGAIN_SECONDS: claims can be lost with a server's data."""
    while True:
        await asyncio.sleep(LOOK_AGAIN_SECONDS)
        waiting.look_again()


async def _read_message(connection: Any) -> list[Any] | None:
    """Reads the next message: its kind, channel and data. Returns None if none comes in SILENCE_SECONDS.

    redis-py's own get_message takes several times as long, and all clients wait for it.
    """
    try:
        async with asyncio.timeout(SILENCE_SECONDS):
            found = await connection.read_response(timeout=math.inf, disconnect_on_error=False, push_request=True)
    except TimeoutError:
        return None
    return found if isinstance(found, list) else [found]


async def _listen_once(channel: str, hear: MessageHandler) -> None:
    client = async_client("state")
    try:
        node = await client.any_node() if isinstance(client, ClusterClient) else client
        async with node.pubsub() as subscription:
            await subscription.subscribe(channel)
            asked = False
            while True:
                message = await _read_message(subscription.connection)
                if message is None and asked:
                    raise RedisError("no answer to a ping")  # the peer is gone without a word
                if message is None:
                    await subscription.ping()
                elif message[0] == b"subscribe":
                    hear(None)
                elif message[0] == b"message":
                    hear(message[2])
                asked = message is None
    finally:
        await client.aclose()
