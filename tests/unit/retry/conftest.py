"""Fixtures of the tests of the protocol: real Redis servers, a piece of work."""

import pytest

from retry.work import Work
from tests.conftest import RedisServers


@pytest.fixture
def servers(redis_servers: RedisServers) -> RedisServers:
    return redis_servers


@pytest.fixture
def work() -> Work:
    return Work("paint:a:1", "paint:a", "paint.now", "paint.refresh", "tests.paint", ("a", 1))
