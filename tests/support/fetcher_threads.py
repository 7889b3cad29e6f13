"""A fetcher in a test's own event loop: all of it but the process."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from resources.fetching.addressing.addresses import guard
from resources.fetching.fetcher.asking import Asker
from resources.fetching.fetcher.attending import Attendant
from resources.fetching.fetcher.engine import Engine
from resources.fetching.fetcher.slots import Slots
from resources.fetching.fetcher.trips import Trips
from resources.fetching.fetcher.waking import Waking
from resources.fetching.fetcher.ways import Ways
from resources.fetching.fetcher.works import Works
from resources.fetching.keeping.timings import Recorder
from resources.fetching.queues.frontier import WAKE_CHANNEL
from resources.fetching.transport.policy import Policy
from retry import claims, connections, contents, lanes, standings
from retry.contents import Content
from retry.work import Work

WAIT_SECONDS = 100


@dataclass(slots=True)
class Fetcher:
    """A running engine."""

    engine: Engine
    slots: Slots
    task: "asyncio.Task[None]"

    async def end(self) -> None:
        self.engine.end()
        await asyncio.wait_for(self.task, WAIT_SECONDS)


@asynccontextmanager
async def fetching(slots: int = 10) -> AsyncIterator[Fetcher]:
    """One that may ask loopback addresses. It is told to end at the end, and has to."""
    clients: connections.Clients = {
        "state": connections.async_client("state", patient=True),
        "cache": connections.async_client("cache", patient=True),
    }
    trips, places = Trips(clients), Slots(slots)
    with tempfile.TemporaryDirectory(prefix="tarry-spool-") as spool:
        policy = Policy(guard([80, 443], ("127.0.0.0/8",)), "Tarry", Path(spool))
        async with Ways(policy) as ways:
            works, recorder = Works(trips), Recorder()
            attendant = Attendant(trips, works, Asker(trips, ways, recorder), "m")
            engine = Engine(trips, works, attendant, places, Waking(), worker="w", machine="m")
            fetcher = Fetcher(engine, places, asyncio.create_task(engine.run()))
            await _listens()
            try:
                yield fetcher
            finally:
                try:
                    await fetcher.end()
                finally:
                    for each in clients.values():
                        await each.aclose()
                assert works.held == 0, "leases would be renewed for ever"
            assert list(Path(spool).glob("*/*")) == []
        assert list(Path(spool).iterdir()) == []


async def want(work: Work) -> int:
    """As main does for a client; the claim's token."""
    return await asyncio.to_thread(_want, work)


async def ended(work: Work) -> standings.Standing:
    """How the work ended, when it has."""
    async with asyncio.timeout(WAIT_SECONDS):
        while isinstance(found := await stands(work), standings.Claimed):
            await asyncio.sleep(0.01)
    return found


async def at_rest() -> None:
    """Returns when fetchers hold no job: whoever wants its URL from now on gets an answer of its own."""
    async with asyncio.timeout(WAIT_SECONDS):
        while await asyncio.to_thread(connections.client("state").exists, "fetch:leases"):
            await asyncio.sleep(0.01)


async def stands(work: Work) -> standings.Standing:
    return standings.standing(await asyncio.to_thread(connections.execute, claims.looking(work.key)))


async def content(key: str) -> Content | None:
    return await asyncio.to_thread(connections.run, contents.read(key))


def _want(work: Work) -> int:
    found = standings.standing(connections.execute(claims.beginning(work, refresh=False)))
    assert isinstance(found, standings.Begun), found
    lanes.publish(work.task, work.key, found.token, work.arguments, work.lane)
    return found.token


async def _listens() -> None:
    """Until it does: a connection that is given up while it is being made is left open by the library."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not (await asyncio.to_thread(connections.client("state").pubsub_numsub, WAKE_CHANNEL))[0][1]:
            await asyncio.sleep(0.01)
