"""A cloud that calls back over real HTTP, and a site that it reaches."""

from collections.abc import Iterator

import pytest
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from tests.conftest import RedisServers
from tests.flows import cloud_server
from tests.flows.cloud_server import Cloud


@pytest.fixture
def cloud(gathering: RedisServers, live_server: LiveServer, settings: Settings) -> Iterator[Cloud]:
    settings.FEEDS_PUSH, settings.PUBLIC_URL = True, live_server.url
    settings.FEEDS_PUSH_COOL_SECONDS = 0
    settings.RETRY_DONE_SECONDS = 0.01  # what was asked just now can be asked again
    with cloud_server.running() as cloud:
        yield cloud
