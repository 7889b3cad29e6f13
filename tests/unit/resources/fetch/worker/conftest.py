"""Fixtures of the tests of fetchers."""

from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest
from pytest_django import Settings

from resources.fetch import host_settings
from resources.fetch.host_settings import HostHeader
from tests.conftest import RedisServers
from tests.hostile.origin import Origin


@pytest.fixture
async def other() -> AsyncIterator[Origin]:
    async with Origin("127.0.0.2") as origin:
        yield origin


def headers_for_url(url: str) -> tuple[HostHeader, ...]:
    return (HostHeader("X-Host", urlsplit(url).hostname or "", over_http=True, to_any_address=True),)


@pytest.fixture
def pages(servers: RedisServers, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks for pages, asked for in quick succession."""
    monkeypatch.setattr(host_settings, "headers_for_url", headers_for_url)  # those of a database
    settings.FETCH_TASKS = {
        "tests.page": "tests.support.origin.TASK",
        "tests.obedient": "tests.support.origin.OBEDIENT",
        "tests.quick": "tests.support.origin.QUICK",
    }
    settings.FETCH_DELAY_SECONDS, settings.FETCH_MAX_PER_SECOND = 0.02, 1000
    settings.FETCH_BACKOFF_BASE_SECONDS = 0.02
