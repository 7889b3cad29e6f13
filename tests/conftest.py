"""Fixtures for all tests. Starts nothing that a test does not ask for."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings as hypothesis_settings

from tests import settings
from tests.redis_servers import RedisServer

# No test is timed: machines are noisy.
hypothesis_settings.register_profile("untimed", deadline=None)
hypothesis_settings.load_profile("untimed")


@dataclass(frozen=True, slots=True)
class RedisServers:
    """The two servers that REDIS_URL and CACHE_URL name in tests."""

    state: RedisServer
    cache: RedisServer


@pytest.fixture(scope="session")
def _running_redis_servers() -> Iterator[RedisServers]:
    directory = Path(settings.RUNTIME_DIR)
    servers = RedisServers(
        state=RedisServer(directory / "state.sock", "--maxmemory-policy", "noeviction"),
        cache=RedisServer(directory / "cache.sock", "--maxmemory", "128mb", "--maxmemory-policy", "allkeys-lru"),
    )
    servers.state.start()
    servers.cache.start()
    yield servers
    servers.state.stop()
    servers.cache.stop()


@pytest.fixture
def redis_servers(_running_redis_servers: RedisServers) -> RedisServers:
    """Both servers, running and empty."""
    for server in (_running_redis_servers.state, _running_redis_servers.cache):
        if server.process is None:  # the test before stopped it
            server.start()
        server.client.flushall()
    return _running_redis_servers
