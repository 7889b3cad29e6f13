"""Fixtures of the tests of fetching: a real Redis server, and a clock of its own."""

from collections.abc import AsyncIterator

import pytest

from tests.conftest import RedisServers
from tests.hostile.origin import Origin
from tests.support.frontier_clock import Clock


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def origin() -> AsyncIterator[Origin]:
    async with Origin() as origin:
        yield origin


@pytest.fixture
def servers(redis_servers: RedisServers) -> RedisServers:
    return redis_servers


@pytest.fixture
def clock(servers: RedisServers, monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)
