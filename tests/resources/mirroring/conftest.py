"""Redis servers that run and are empty, and a process that remembers nothing of the test before."""

import pytest

from resources.mirroring.keeping import blocking
from tests.conftest import RedisServers


@pytest.fixture(autouse=True)
def _nothing_known(redis_servers: RedisServers) -> None:
    blocking.forget()
