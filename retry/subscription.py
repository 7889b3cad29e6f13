"""Keeps a Redis subscription alive through lost connections, restarts and silent peers.

Passes the ends of work on to the waiting clients, and before these the notices of contents.
"""

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from itertools import islice
from typing import Any

from redis.exceptions import RedisError

from .claims import FINISHED_CHANNEL
from .contents import StoredNotice, channel_name
from .rooms import WaitingClients
from .scripts import Server
from .servers import ClusterClient
from .stores import subscribing_client

SILENCE_SECONDS = 5.0
RETRY_PAUSE_SECONDS = 0.2
LOOK_AGAIN_SECONDS = 2.0

MessageHandler = Callable[[bytes | None], None]
"""Takes each message; None stands for a new subscription: messages before it are lost."""

Sender = Callable[[Any], Coroutine[None, None, None]]
"""Sends commands on the connection of a subscription, for as long as it stands."""

_log = logging.getLogger("tarry.subscribing")


async def listen_forever(
    channel: str, hear: MessageHandler, server: Server = "state", send: Sender | None = None
) -> None:
    """Passes on the messages of a channel. Does not return; ends by cancellation."""
    is_lost = False

    def heard(data: bytes | None) -> None:
        nonlocal is_lost
        is_lost = False
        hear(data)

    while True:
        try:
            await _listen_once(server, channel, heard, send)
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


CONTENTS_CHANNEL = "retry:contents"
"""A channel of `cache` without messages, by which a watch tells that its subscription stands."""

MAX_WATCHED = 200
"""Contents that a process watches at a time."""


class NoticeListener:
    """Hears of contents with waiting clients from `cache`, as soon as they are stored and before their work ends.

    `database` is the number of that of `cache`. A notice that is lost has no effect but a later answer. The contents
    that have waited longest are watched. A channel stays subscribed until others follow it.
    """

    def __init__(self, database: int) -> None:
        self._database = database
        self._rooms = Counter[str]()
        """The number of rooms by content key."""
        self._has_more = asyncio.Event()

    def add(self, content_key: str) -> None:
        """Adds a room of the content."""
        self._rooms[content_key] += 1
        if len(self._rooms) <= MAX_WATCHED:
            self._has_more.set()

    def discard(self, content_key: str) -> None:
        """Removes a room of the content. One that has not been watched yet may follow the last room's content."""
        self._rooms[content_key] -= 1
        if self._rooms[content_key] <= 0:
            del self._rooms[content_key]
            if len(self._rooms) >= MAX_WATCHED:
                self._has_more.set()

    async def listen_forever(self, waiting: WaitingClients) -> None:
        """Passes the notices on to the waiting clients. Does not return; ends by cancellation."""

        def pass_on(message: bytes | None) -> None:
            if message is not None:
                waiting.stored(StoredNotice.parse(message))

        await listen_forever(CONTENTS_CHANNEL, pass_on, "cache", self._subscribe_forever)

    async def _subscribe_forever(self, connection: Any) -> None:
        subscribed: set[str] = set()
        while True:
            self._has_more.clear()
            names = {channel_name(key, self._database) for key in islice(self._rooms, MAX_WATCHED)}
            if new := names - subscribed:
                old = subscribed - names
                commands = [("SUBSCRIBE", *new), *([("UNSUBSCRIBE", *old)] if old else [])]
                await connection.send_packed_command(connection.pack_commands(commands), check_health=False)
                subscribed = names
            await self._has_more.wait()


async def look_again_forever(waiting: WaitingClients) -> None:
    """Looks at all rooms every LOOK_AGAIN_SECONDS: claims can be lost with a server's data."""
    while True:
        await asyncio.sleep(LOOK_AGAIN_SECONDS)
        waiting.look_again()


async def _listen_once(server: Server, channel: str, hear: MessageHandler, send: Sender | None) -> None:
    client = subscribing_client(server)
    try:
        node = await client.any_node() if isinstance(client, ClusterClient) else client
        async with node.pubsub() as subscription:
            await subscription.subscribe(channel)
            sending = asyncio.create_task(_send(send, subscription.connection)) if send else None
            try:
                await _pass_messages_on(subscription, hear)
            finally:
                if sending:
                    sending.cancel()
    finally:
        await client.aclose()


async def _send(send: Sender, connection: Any) -> None:
    with suppress(RedisError, OSError):  # the reader meets the same error
        await send(connection)


async def _pass_messages_on(subscription: Any, hear: MessageHandler) -> None:
    """Does not return. Raises RedisError when the server has not answered for two or three times SILENCE_SECONDS."""
    asked = False
    while True:
        number = await _hear_for(SILENCE_SECONDS, subscription.connection, hear)
        if not number and asked:
            raise RedisError("no answer to a ping")  # the peer is gone without a word
        asked = not number
        if asked:
            await subscription.ping()


async def _hear_for(seconds: float, connection: Any, hear: MessageHandler) -> int:
    """Passes the messages of so long on. Returns the number of replies, with those to pings. Raises RedisError.

    One timer for all of them: one for each takes longer than the rest. redis-py's own get_message takes several times
    as long, and all clients wait for it.
    """
    number = 0
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while True:
                found = await connection.read_response(timeout=math.inf, disconnect_on_error=False, push_request=True)
                if found is None:  # the system's own timeout, which comes again at each read
                    raise RedisError("the connection has timed out")
                number += 1
                if isinstance(found, list) and found[0] == b"subscribe":
                    hear(None)
                elif isinstance(found, list) and found[0] == b"message":
                    hear(found[2])
    return number
