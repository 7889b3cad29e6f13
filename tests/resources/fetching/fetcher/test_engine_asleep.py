"""A fetcher that has nothing to do asks Redis for nothing, and one that runs does as it is told at once."""

import asyncio

import pytest
from pytest_django import Settings

from resources.fetching.queues import frontier
from resources.fetching.queues.jobs import Limits
from retry import connections
from tests.conftest import RedisServers
from tests.hostile.origin import Origin, Peer, answer
from tests.resources.fetching.asking import enqueue, job
from tests.resources.fetching.fetcher.running import run
from tests.resources.fetching.fetchers import WAIT_SECONDS, at_rest, ended, fetching, want
from tests.resources.fetching.pages import page_work

pytestmark = pytest.mark.usefixtures("pages")


def scripts_run(servers: RedisServers) -> int:
    """How often a script was asked for: all calls of fetchers are scripts."""
    counted = servers.state.client.info("commandstats")
    return int(counted["cmdstat_evalsha"]["calls"])


async def set_limits(scope: str, limits: Limits) -> None:
    await asyncio.to_thread(connections.run, frontier.set_limits(scope, limits))


def test_a_fetcher_to_which_nothing_is_due_does_not_ask_again_and_again(servers: RedisServers) -> None:
    async def test(origin: Origin) -> None:
        work = page_work(origin.does("/a", answer(body=b"page")))
        async with fetching():
            await want(work)
            await ended(work)
            await set_limits("paused.example", Limits(paused=True))
            await asyncio.to_thread(enqueue, job("1", "paused.example"), job("2", not_before_seconds=60))
            await at_rest()
            before = await asyncio.to_thread(scripts_run, servers)
            await asyncio.sleep(1)
            assert await asyncio.to_thread(scripts_run, servers) - before <= 3  # it may show that it is there

    run(test)


def test_a_pause_holds_at_once_and_so_does_its_end(settings: Settings) -> None:
    async def test(origin: Origin) -> None:
        came = asyncio.Event()

        async def behave(peer: Peer) -> None:
            came.set()
            await answer(body=b"page")(peer)

        url = origin.does("/a", behave)
        works = [page_work(f"{url}?{number}", str(number)) for number in range(60)]
        async with fetching(), asyncio.timeout(WAIT_SECONDS):
            await asyncio.gather(*map(want, works))
            await came.wait()
            scope = f"{origin.address}:{origin.port}"
            await set_limits(scope, Limits(paused=True))
            before = len(origin.asked)
            await asyncio.sleep(0.5)  # 25 would have come
            assert len(origin.asked) - before <= settings.FETCH_IN_FLIGHT
            assert len(origin.asked) < len(works)
            came.clear()
            await set_limits(scope, Limits())
            await asyncio.wait_for(came.wait(), 1)
            await asyncio.gather(*map(ended, works))

    run(test)
