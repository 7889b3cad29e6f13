"""Popular content is refreshed before it expires; other content is left to expire."""

import random
from datetime import UTC, datetime
from unittest.mock import Mock

import pytest
from django.http import HttpResponse
from django.test import RequestFactory
from pytest_django import Settings

from retry import contents, popularity, stores
from retry.contents import Prepared
from retry.deferral import serve_or_defer
from retry.work import Work
from tests.conftest import RedisServers
from tests.support.claim_calls import fail

KEY = "tile:a:1"


@pytest.fixture(autouse=True)
def _no_luck(servers: RedisServers, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is refreshed early by chance."""
    monkeypatch.setattr(random, "random", lambda: 0.0)
    settings.POPULAR_REQUESTS = 10


def ask(work: Work) -> HttpResponse:
    return serve_or_defer(RequestFactory().get("/tiles/a.png"), KEY, work)


def store(fresh: float) -> None:
    """Content with so much left of a minute."""
    content = Prepared(b"tile", "image/png", 60, 0)
    stores.execute_call(contents.store_call(KEY, content, 1, datetime.now(UTC), 0.01))
    stores.fast_client("cache").pexpire(contents.content_name(KEY), int(fresh * 1000))


def ask_for(times: float) -> None:
    stores.execute_call(popularity.count_call("here", b"", b"", [], {KEY: times}))


def refreshes(servers: RedisServers) -> int:
    return servers.state.client.llen("paint.refresh")


def test_popular_content_about_to_expire_is_served_and_refreshed_once(work: Work, servers: RedisServers) -> None:
    store(fresh=8)
    ask_for(20)
    for _ in range(3):
        response = ask(work)
        assert response.status_code == 200
        assert "stale" not in response["Server-Timing"]
    assert refreshes(servers) == 1


def test_unpopular_content_about_to_expire_is_left_alone(work: Work, servers: RedisServers) -> None:
    store(fresh=8)
    ask_for(5)
    assert ask(work).status_code == 200
    assert refreshes(servers) == 0
    assert not servers.state.client.exists(f"retry:claim:{work.key}")


def test_popular_content_that_lasts_is_not_asked_about(
    work: Work, servers: RedisServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(fresh=30)
    ask_for(20)
    noted = Mock(side_effect=stores.execute_call)
    monkeypatch.setattr(stores, "execute_call", noted)
    assert ask(work).status_code == 200
    assert "state" not in [call.args[0].server for call in noted.mock_calls]
    assert refreshes(servers) == 0


def test_without_the_state_content_about_to_expire_is_served(work: Work, settings: Settings) -> None:
    settings.REDIS_URL = "unix:///nowhere/state.sock"
    store(fresh=8)
    response = ask(work)
    assert response.status_code == 200
    assert "stale" not in response["Server-Timing"]


def test_a_refresh_that_failed_is_not_tried_again_during_its_pause(work: Work, servers: RedisServers) -> None:
    store(fresh=8)
    ask_for(20)
    ask(work)
    servers.state.client.delete("paint.refresh")
    token = int(servers.state.client.hget(f"retry:claim:{work.key}", "token") or 0)
    fail(work, token)
    assert ask(work).status_code == 200
    assert refreshes(servers) == 0
