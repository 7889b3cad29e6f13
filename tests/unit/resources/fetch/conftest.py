"""Fixtures of the tests of fetching: a real Redis server, and a clock of its own."""

import pytest

from tests.conftest import RedisServers
from tests.support.frontier_clock import Clock


@pytest.fixture
def servers(redis_servers: RedisServers) -> RedisServers:
    return redis_servers


@pytest.fixture
def clock(servers: RedisServers, monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)
