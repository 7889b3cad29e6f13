"""A domain that the admin has a page of."""

import pytest

from resources.fetch.models import FetchDomain
from tests.conftest import RedisServers
from tests.support.frontier import HOST


@pytest.fixture
def row(servers: RedisServers) -> FetchDomain:
    return FetchDomain.objects.create(scope=HOST)
