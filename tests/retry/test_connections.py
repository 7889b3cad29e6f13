"""Connections to Redis."""

import pytest
from redis.asyncio.connection import Connection

from retry import connections


@pytest.mark.parametrize(
    "command",
    [
        ("EVALSHA", "0" * 40, 1, "key", 1_800_000_000_123.5, 0.1, 10**15, -1, "Mühle ÷", b"\x00\xff\r\n", ""),
        ("SET", "x", b"0" * 100_000),
        ("CONFIG GET", "maxmemory"),
    ],
)
def test_commands_are_packed_as_redis_py_packs_them(command: tuple[str]) -> None:
    packed = connections.async_client("state").connection_pool.connection_class.pack_command(Connection(), *command)
    assert b"".join(packed) == b"".join(Connection().pack_command(*command))
