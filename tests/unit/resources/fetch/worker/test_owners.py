"""Two fetchers with a real Redis and real origins: each host is asked by its owner alone."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
from pytest_django import Settings

from resources.fetch.frontier import queue
from retry import claim_state, stores
from tests.hostile.origin import Origin, answer
from tests.support.fetcher_threads import WAIT_SECONDS, ended, fetching, want
from tests.support.origin import page_work

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("pages")]

ADDRESSES = [f"127.0.0.{number}" for number in range(10, 22)]
PAGES = 4


@pytest.fixture
async def origins(settings: Settings) -> AsyncIterator[list[Origin]]:
    settings.FETCH_LEASE_SECONDS = 3
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(Origin(address)) for address in ADDRESSES]


async def fetch_pages(origins: list[Origin], name: str) -> dict[str, set[str]]:
    """Has some pages of each fetched; returns the machines that asked, by address."""
    for origin in origins:
        origin.asked.clear()
    urls = [origin.does(f"/{name}-{page}", answer(body=b"page")) for page in range(PAGES) for origin in origins]
    works = [page_work(url, url) for url in urls]
    for work in works:
        await want(work)
    for work in works:
        assert isinstance(await ended(work), claim_state.WorkDone)
    assert all(len(origin.asked) == PAGES for origin in origins)
    return {origin.address: {asked.fields["user-agent"] for asked in origin.asked} for origin in origins}


async def signed_in(machines: set[str]) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while set(await asyncio.to_thread(stores.run_steps, queue.read_owned_parts())) != {f"{m}:w" for m in machines}:
            await asyncio.sleep(0.01)


async def test_each_host_is_asked_by_one_fetcher_over_its_connections(origins: list[Origin]) -> None:
    async with fetching(machine="here"), fetching(machine="there"):
        await signed_in({"here", "there"})
        first = await fetch_pages(origins, "first")
        connections = [origin.connections for origin in origins]
        assert await fetch_pages(origins, "second") == first
    assert all(len(machines) == 1 for machines in first.values())
    assert set.union(*first.values()) == {"here", "there"}
    assert [origin.connections for origin in origins] == connections, "they are kept"


async def test_a_killed_fetchers_hosts_are_asked_by_the_other(origins: list[Origin]) -> None:
    async with fetching(machine="here"), fetching(machine="there") as killed:
        await signed_in({"here", "there"})
        first = await fetch_pages(origins, "first")
        await killed.kill()
        second = await fetch_pages(origins, "second")
    assert {"there"} in first.values()
    assert second == {address: {"here"} for address in first}


async def test_hosts_of_a_fetcher_that_ends_are_asked_by_the_other_at_once(
    origins: list[Origin], settings: Settings
) -> None:
    settings.FETCH_LEASE_SECONDS = 600
    async with fetching(machine="here"), fetching(machine="there") as ending:
        await signed_in({"here", "there"})
        await ending.end()
        assert await fetch_pages(origins, "all") == {address: {"here"} for address in ADDRESSES}
