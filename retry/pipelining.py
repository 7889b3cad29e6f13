"""One asynchronous trip to Redis for many commands: packed by hiredis, with a timer for many replies at once.

redis-py's own pipeline costs several times as much. Knows nothing of scripts, nor of which server it is.
"""

import asyncio
import math
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, cast

import hiredis
import redis
import redis.asyncio
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ResponseError

from .scripts import Reply

REPLIES_IN_TIME = 50
"""So many replies of one trip come within the time that a single one has."""


@cache
def packing(kind: type[AbstractConnection]) -> type[AbstractConnection]:
    """The kind of connection, with commands packed by hiredis, in a tenth of the time: redis-py only unpacks by it.

    Who is cancelled while it sends ends: redis-py sends by asyncio.wait_for, which may swallow that until Python 3.12
    (python/cpython#86296).
    """

    def pack_command(self: AbstractConnection, *args: Any) -> list[bytes]:
        if " " in args[0]:  # a name of two words
            return list(kind.pack_command(self, *args))
        return [hiredis.pack_command(args)]

    async def send_packed_command(
        self: AbstractConnection, command: bytes | str | Iterable[bytes], check_health: bool = True
    ) -> None:
        if not self.is_connected:
            await self.connect_check_health(check_health=False)
        if check_health:
            await self.check_health()  # type: ignore[no-untyped-call]
        try:
            async with asyncio.timeout(self.socket_timeout):
                await self._send_packed_command(_chunks(command))
        except OSError as error:  # of which a timeout is one
            await self.disconnect(nowait=True)
            kind_of_error = redis.TimeoutError if isinstance(error, TimeoutError) else redis.ConnectionError
            raise kind_of_error(f"cannot be sent: {str(error) or 'not in time'}") from error
        except BaseException:
            await self.disconnect(nowait=True)  # part of it may have been sent
            raise

    return type(kind.__name__, (kind,), {"pack_command": pack_command, "send_packed_command": send_packed_command})


def _chunks(command: bytes | str | Iterable[bytes]) -> Iterable[bytes]:
    if isinstance(command, str):
        command = command.encode()
    return [command] if isinstance(command, bytes) else command


async def replies(client: "redis.asyncio.Redis", commands: Sequence[tuple[Any, ...]]) -> list[Reply]:
    """Those of all commands, refusals in their places. Raises RedisError and OSError when nothing comes back.

    redis-py's own pipeline sets a timer for each reply, which costs as much as all else that is done for it.
    """
    pool, found = client.connection_pool, list[Reply]()
    connection = await pool.get_connection()  # type: ignore[no-untyped-call]
    try:
        await connection.send_packed_command(connection.pack_commands(commands), check_health=False)
        while len(found) < len(commands):
            async with asyncio.timeout(connection.socket_timeout):
                for _ in commands[len(found) : len(found) + REPLIES_IN_TIME]:
                    found.append(await _reply(connection))
    except TimeoutError as error:
        raise redis.TimeoutError("no reply in time") from error
    finally:
        await pool.release(connection)
    return found


async def _reply(connection: AbstractConnection) -> Reply:
    """The next one. Whatever else keeps it from being read has ended the connection."""
    try:
        return cast(Reply, await connection.read_response(timeout=math.inf))
    except ResponseError as error:
        return error
