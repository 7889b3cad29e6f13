"""A cloud and a hub that call back over real HTTP, and a site that they reach."""

from collections.abc import Iterator

import pytest
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from feeds.subscriptions import views
from tests.conftest import RedisServers
from tests.support import cloud_server, hub_server
from tests.support.cloud_server import Cloud
from tests.support.hub_server import Hub


@pytest.fixture
def _reached(feed_redis: RedisServers, live_server: LiveServer, settings: Settings) -> None:
    settings.FEEDS_PUSH, settings.PUBLIC_URL = True, live_server.url
    settings.FEEDS_PUSH_COOL_SECONDS = 0
    settings.RETRY_DONE_SECONDS = 0.01  # the same request can be sent again at once


@pytest.fixture
def cloud(_reached: None) -> Iterator[Cloud]:
    with cloud_server.running() as cloud:
        yield cloud


@pytest.fixture
def hub(_reached: None) -> Iterator[Hub]:
    with hub_server.running() as hub:
        yield hub


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The scans that callbacks ask for: they are noted, and do not begin."""
    asked: list[str] = []
    monkeypatch.setattr(views.SCAN_CALL, "soon", lambda: asked.append("soon"))
    monkeypatch.setattr(views.LATER_SCAN_CALL, "soon", lambda: asked.append("later"))
    return asked
