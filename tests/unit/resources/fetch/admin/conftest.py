"""A domain that the admin has a page of, and a Redis server that is away."""

from collections.abc import Iterator

import pytest

from resources.fetch.models import FetchDomain
from tests.conftest import RedisServers
from tests.support.frontier import HOST


@pytest.fixture
def row(servers: RedisServers) -> FetchDomain:
    return FetchDomain.objects.create(scope=HOST)


@pytest.fixture
def away(servers: RedisServers) -> Iterator[None]:
    servers.state.stop()
    yield
    servers.state.start()
