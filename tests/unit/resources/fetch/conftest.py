"""What the tests of fetching share: a real Redis server, and a clock of their own."""

from collections.abc import Iterator

import pytest

from retry.connections import BREAKERS
from tests.conftest import RedisServers
from tests.resources.fetching.clock import Clock


@pytest.fixture
def servers(redis_servers: RedisServers) -> Iterator[RedisServers]:
    yield redis_servers
    for breaker in BREAKERS.values():
        breaker.succeeded()


@pytest.fixture
def clock(servers: RedisServers, monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)
