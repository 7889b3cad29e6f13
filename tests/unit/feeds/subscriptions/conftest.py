"""A cloud and a hub that call back over real HTTP, and a site that they reach."""

from collections.abc import Iterator

import pytest
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from tests.conftest import RedisServers
from tests.flows import cloud_server, hub_server
from tests.flows.cloud_server import Cloud
from tests.flows.hub_server import Hub


@pytest.fixture
def _reached(gathering: RedisServers, live_server: LiveServer, settings: Settings) -> None:
    settings.FEEDS_PUSH, settings.PUBLIC_URL = True, live_server.url
    settings.FEEDS_PUSH_COOL_SECONDS = 0
    settings.RETRY_DONE_SECONDS = 0.01  # what was asked just now can be asked again


@pytest.fixture
def cloud(_reached: None) -> Iterator[Cloud]:
    with cloud_server.running() as cloud:
        yield cloud


@pytest.fixture
def hub(_reached: None) -> Iterator[Hub]:
    with hub_server.running() as hub:
        yield hub
