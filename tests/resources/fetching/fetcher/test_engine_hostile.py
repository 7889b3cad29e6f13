"""Hostile answers, many at once, through a running fetcher: each is a failure, and the fetcher goes on as before."""

import asyncio
import tracemalloc
from contextlib import AsyncExitStack

import pytest
from pytest_django import Settings

from retry import standings
from tests.conftest import RedisServers
from tests.hostile.origin import Origin, answer
from tests.hostile.test_answers import BIG, BROKEN, SLOW
from tests.hostile.test_bodies import BOMBS
from tests.resources.fetching.fetchers import WAIT_SECONDS, content, ended, fetching, want
from tests.resources.fetching.handed_over import claimed
from tests.resources.fetching.pages import page_work
from tests.retry.claiming import failed_with

pytestmark = pytest.mark.usefixtures("pages")

HOSTILE = SLOW | BIG | BROKEN | BOMBS
SLOTS = 20
MEMORY_BYTES = 4_000_000
"""For each place: no hostile body takes more where it is alone. The origins' own buffers are in it too."""


@pytest.fixture
def short_limits(settings: Settings) -> None:
    settings.FETCH_ATTEMPTS = 1
    settings.FETCH_CONNECT_SECONDS = 10
    settings.FETCH_HEAD_SECONDS = settings.FETCH_RATE_WINDOW_SECONDS = 0.5
    settings.FETCH_DEADLINE_SECONDS = settings.FETCH_SLOW_DEADLINE_SECONDS = 1.5
    settings.FETCH_MAX_BYTES = settings.FETCH_SLOW_MAX_BYTES = 1_000_000
    settings.FETCH_SPOOL_BYTES = 50_000


@pytest.mark.usefixtures("short_limits")
def test_a_fetcher_outlives_all_hostile_answers_in_little_memory(servers: RedisServers) -> None:
    async def test() -> None:
        async with AsyncExitStack() as origins:
            works = {}
            for number, (name, behaviour) in enumerate(HOSTILE.items(), 1):
                origin = await origins.enter_async_context(Origin(f"127.0.1.{number}"))
                works[name] = page_work(origin.does("/", behaviour), name)
            async with fetching(SLOTS) as fetcher:
                tracemalloc.start()
                await asyncio.gather(*map(want, works.values()))
                async with asyncio.timeout(WAIT_SECONDS):
                    while await asyncio.to_thread(claimed, servers):
                        await asyncio.sleep(0.05)
                assert tracemalloc.get_traced_memory()[1] < SLOTS * MEMORY_BYTES
                statuses = {name: failed_with(servers, work) for name, work in works.items()}
                assert set(statuses.values()) == {502, 504}
                assert {name for name, status in statuses.items() if status == 504} >= SLOW.keys()
                decent = page_work(origin.does("/decent", answer(body=b"decent")), "decent")
                await want(decent)
                assert isinstance(await ended(decent), standings.Done)
                assert not fetcher.task.done()
                assert (fetcher.slots.taken("fast"), fetcher.slots.taken("slow")) == (0, 0)
        stored = await content("content:decent")
        assert stored
        assert stored.body == b"decent"

    try:
        asyncio.run(test())
    finally:
        tracemalloc.stop()
