"""Fixtures of the tests of feeds: Redis servers, a fast fetcher, readers that end with the test, a worker."""

from collections.abc import Iterator
from typing import Any

import pytest
from pytest_django import Settings

from feeds import tasks, views
from feeds.scan import store, supplement_task
from tests.conftest import RedisServers
from tests.hostile.origin import Origin
from tests.support.feed_scans import in_a_loop
from tests.support.fetcher_threads import fetching


@pytest.fixture(autouse=True)
def _knows_nothing(settings: Settings) -> None:
    settings.FEEDS_KNOWN_SECONDS = 0
    views._known_subjects.clear()


@pytest.fixture
def feed_redis(transactional_db: None, redis_servers: RedisServers, settings: Settings) -> Iterator[RedisServers]:
    settings.FETCH_DELAY_SECONDS, settings.FETCH_MAX_PER_SECOND = 0.001, 1000
    settings.FETCH_ALLOW_PRIVATE = ["127.0.0.1"]
    settings.FETCH_ATTEMPTS = 1
    yield redis_servers
    store.READER_POOL.close()
    supplement_task.PAGE_POOL.close()


@pytest.fixture
def origin(feed_redis: RedisServers) -> Iterator[Origin]:
    """An origin, and a fetcher that may ask it, each in a thread."""
    with in_a_loop(Origin) as origin, in_a_loop(fetching):
        yield origin


class Workers:
    """The works that were handed over and not done yet: name of the task, work key, token, arguments, lane."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def work(self) -> None:
        """Does all of it."""
        while self.calls:
            task, work_key, token, arguments, _lane = self.calls.pop(0)
            assert task == tasks.render_feed_page.name
            tasks.render_feed_page(work_key, token, *arguments)


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Workers:
    found = Workers()
    monkeypatch.setattr("retry.lanes.publish_work", lambda *call: found.calls.append(call))
    return found
