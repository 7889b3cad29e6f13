"""A mirror in a test: a real Redis, a fast fetcher, rows, and threads that end with the test."""

from collections.abc import Iterator

import pytest
from pytest_django import Settings

from resources.mirroring.keeping import blocking, hosts, lanes, seen, writing
from retry.connections import BREAKERS
from tests.conftest import RedisServers


@pytest.fixture
def mirroring(
    transactional_db: None, redis_servers: RedisServers, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RedisServers]:
    settings.FETCH_DELAY_SECONDS = 0.001
    settings.FETCH_ALLOW_PRIVATE = ["127.0.0.1"]
    settings.FETCH_ATTEMPTS = 1
    settings.MIRROR_KNOWN_SECONDS = 0
    monkeypatch.setattr(writing, "IDLE_SECONDS", 0.05)
    monkeypatch.setattr(writing, "PAUSE_SECONDS", 0.05)
    forget()
    yield redis_servers
    writing.writer().join()
    forget()
    for breaker in BREAKERS.values():
        breaker.succeeded()


def forget() -> None:
    blocking.forget()
    seen.forget_all_here()
    hosts.forget_all_here()
    lanes.forget_all_here()
