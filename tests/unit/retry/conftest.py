"""What the tests of the protocol share: real Redis servers, closed breakers, a piece of work."""

from collections.abc import Iterator

import pytest

from retry.connections import BREAKERS
from retry.work import Work
from tests.conftest import RedisServers


def close_breakers() -> None:
    for breaker in BREAKERS.values():
        breaker.succeeded()


@pytest.fixture(autouse=True)
def _closed_breakers() -> Iterator[None]:
    close_breakers()
    yield
    close_breakers()


@pytest.fixture
def servers(redis_servers: RedisServers) -> RedisServers:
    return redis_servers


@pytest.fixture
def work() -> Work:
    return Work("paint:a:1", "paint:a", "paint.now", "paint.refresh", "tests.paint", ("a", 1))
