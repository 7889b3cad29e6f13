"""A fetcher in a test's own event loop: all of it but the process."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from resources.fetch.frontier.queue import WAKE_CHANNEL
from resources.fetch.http.allowed_ips import build_guard
from resources.fetch.http.deadlines import FetchPolicy
from resources.fetch.timings import TimingRecorder
from resources.fetch.worker.attempt import AttemptRunner, EgressClients
from resources.fetch.worker.engine import FetchEngine, SlotPool
from resources.fetch.worker.held_claims import RedisTrips
from resources.fetch.worker.timers import WakeListener
from retry import claim_state, claims, contents, lanes, stores
from retry.contents import Content
from retry.work import Work

WAIT_SECONDS = 100


@dataclass(slots=True)
class Fetcher:
    """A running engine."""

    engine: FetchEngine
    slots: SlotPool
    task: "asyncio.Task[None]"

    async def end(self) -> None:
        if not self.task.cancelled():
            self.engine.end()
            await asyncio.wait_for(self.task, WAIT_SECONDS)

    async def kill(self) -> None:
        """Stops it at once: it tells nobody."""
        self.task.cancel()
        await asyncio.wait([self.task])


@asynccontextmanager
async def fetching(slots: int = 10, machine: str = "m") -> AsyncIterator[Fetcher]:
    """One that may ask loopback addresses, and names its machine there. It is told to end at the end, and has to."""
    worker = "w" if machine == "m" else f"{machine}:w"
    clients: stores.AsyncClients = stores.async_clients(patient=True)
    trips, places = RedisTrips(clients), SlotPool(slots)
    with tempfile.TemporaryDirectory(prefix="tarry-spool-") as spool:
        policy = FetchPolicy(build_guard([80, 443], ("127.0.0.0/8",)), machine, Path(spool))
        async with EgressClients(policy) as ways:
            attempts = AttemptRunner(trips, ways, TimingRecorder())
            engine = FetchEngine(trips, attempts, places, WakeListener(), worker=worker, machine=machine)
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
                assert not any(run.claims.held for run in engine._runs), "leases would be renewed for ever"
            assert list(Path(spool).glob("*/*")) == []
        assert list(Path(spool).iterdir()) == []


async def want(work: Work) -> int:
    """Claims work as main does for a client; returns the claim's token."""
    return await asyncio.to_thread(_want, work)


async def ended(work: Work) -> claim_state.ClaimState:
    """The end of the work, once it has ended."""
    async with asyncio.timeout(WAIT_SECONDS):
        while isinstance(found := await stands(work), claim_state.ClaimTaken):
            await asyncio.sleep(0.01)
    return found


async def at_rest() -> None:
    """Returns when fetchers hold no job: later requests for a URL get an answer of their own."""
    async with asyncio.timeout(WAIT_SECONDS):
        while await asyncio.to_thread(stores.fast_client("state").exists, "fetch:{0}:leases"):
            await asyncio.sleep(0.01)


async def stands(work: Work) -> claim_state.ClaimState:
    return claim_state.read_claim_state(await asyncio.to_thread(stores.execute_call, claims.look_call(work.key)))


async def content(key: str) -> Content | None:
    return await asyncio.to_thread(stores.run_steps, contents.read_content(key))


def _want(work: Work) -> int:
    found = claim_state.read_claim_state(stores.execute_call(claims.begin_call(work, refresh=False)))
    assert isinstance(found, claim_state.ClaimBegun), found
    lanes.publish_work(work.task, work.key, found.token, work.arguments, work.lane)
    return found.token


async def _listens() -> None:
    """Until it does: a connection that is given up while it is being made is left open by the library."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not (await asyncio.to_thread(stores.fast_client("state").pubsub_numsub, WAKE_CHANNEL))[0][1]:
            await asyncio.sleep(0.01)
