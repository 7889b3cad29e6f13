"""Redis servers that run and are empty, a fetcher that is fast, and readers that end with the test."""

from collections.abc import Iterator

import pytest
from pytest_django import Settings

from feeds.gathering import settling
from feeds.models import ALL, Category
from feeds.serving import known
from retry.connections import BREAKERS
from tests.conftest import RedisServers


@pytest.fixture(autouse=True)
def _knows_nothing(settings: Settings) -> None:
    settings.FEEDS_KNOWN_SECONDS = 0
    known.forget_all_here()


@pytest.fixture
def gathering(transactional_db: None, redis_servers: RedisServers, settings: Settings) -> Iterator[RedisServers]:
    settings.FETCH_DELAY_SECONDS = 0.001
    settings.FETCH_ALLOW_PRIVATE = ["127.0.0.1"]
    settings.FETCH_ATTEMPTS = 1
    Category.objects.get_or_create(slug=ALL, defaults={"title": "All feeds"})  # a flush takes what migrations made
    yield redis_servers
    settling.READERS.close()
    for breaker in BREAKERS.values():
        breaker.succeeded()
