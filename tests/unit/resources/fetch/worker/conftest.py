"""What the tests of fetchers share."""

import pytest
from pytest_django import Settings

from resources.fetching.keeping import hosts
from tests.conftest import RedisServers


@pytest.fixture
def pages(servers: RedisServers, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks for pages, asked for in quick succession."""
    monkeypatch.setattr(hosts, "headers_of", lambda host: {"X-Host": host.partition(":")[0]})  # those of a database
    settings.FETCH_TASKS = {
        "tests.page": "tests.resources.fetching.pages.TASK",
        "tests.obedient": "tests.resources.fetching.pages.OBEDIENT",
        "tests.quick": "tests.resources.fetching.pages.QUICK",
    }
    settings.FETCH_DELAY_SECONDS = 0.02
    settings.FETCH_BACKOFF_BASE_SECONDS = 0.02
