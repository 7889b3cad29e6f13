"""Claims that a fetcher holds: renewed as long as they are in hand, and no longer."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from resources.fetch.task import TaskCall
from resources.fetch.worker.held_claims import HeldClaims, RedisTrips
from retry import stores
from retry.contents import Prepared
from retry.errors import PreparationError
from tests.support.fetcher_threads import want
from tests.support.origin import page_work

pytestmark = pytest.mark.usefixtures("pages")

PREPARED = {"content:page": Prepared(b"page", "text/plain", 60, 600)}
ENDS: dict[str, Callable[[HeldClaims, TaskCall], Awaitable[None]]] = {
    "stored": lambda claims, call: claims.store(call, PREPARED, 1),
    "failed": lambda claims, call: claims.fail(call, PreparationError("no"), 1),
    "put back": lambda claims, call: claims.put_back(call.work_key, call.token, 5),
}


@pytest.mark.parametrize("how", ENDS)
def test_what_is_not_in_hand_any_more_is_not_renewed(how: str) -> None:
    async def test() -> None:
        clients: stores.AsyncClients = stores.async_clients()
        try:
            claims, work = HeldClaims(RedisTrips(clients), 1), page_work("https://a.example.com/1")
            call = TaskCall(work.task, work.key, await want(work), work.arguments)
            assert await claims.start(call)
            assert claims.held
            await ENDS[how](claims, call)
            assert not claims.held
        finally:
            for each in clients.values():
                await each.aclose()

    asyncio.run(test())
