"""Claims that a fetcher holds: renewed as long as they are in hand, and no longer."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from resources.fetching.errands import Errand
from resources.fetching.fetcher.trips import Trips
from resources.fetching.fetcher.works import Works
from retry import connections
from retry.contents import Prepared
from retry.errors import PreparationError
from tests.resources.fetching.fetchers import want
from tests.resources.fetching.pages import page_work

pytestmark = pytest.mark.usefixtures("pages")

PREPARED = {"content:page": Prepared(b"page", "text/plain", 60, 600)}
ENDS: dict[str, Callable[[Works, Errand], Awaitable[None]]] = {
    "stored": lambda works, errand: works.store(errand, PREPARED, 1),
    "failed": lambda works, errand: works.fail(errand, PreparationError("no"), 1),
    "put back": lambda works, errand: works.put_back(errand, 1, 5),
}


@pytest.mark.parametrize("how", ENDS)
def test_what_is_not_in_hand_any_more_is_not_renewed(how: str) -> None:
    async def test() -> None:
        clients: connections.Clients = {
            "state": connections.async_client("state"),
            "cache": connections.async_client("cache"),
        }
        try:
            works, work = Works(Trips(clients)), page_work("https://a.example.com/1")
            errand = Errand(work.task, work.key, await want(work), work.arguments)
            assert await works.start(errand, 1)
            assert works.held == 1
            await ENDS[how](works, errand)
            assert works.held == 0
        finally:
            for each in clients.values():
                await each.aclose()

    asyncio.run(test())
