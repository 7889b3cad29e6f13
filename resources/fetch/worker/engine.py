"""The engine: takes jobs from the frontier as long as there is room, and attends to them side by side."""

import asyncio
import logging
import math
import time
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from functools import partial

from retry import claims
from retry.errors import StoreUnavailable

from ..queues import frontier
from ..queues.jobs import Claimed, Doomed, Idle, Lane
from ..queues.tuning import politeness
from .attending import Attendant
from .slots import Place, Slots
from .trips import Trips
from .waking import Waking
from .works import Works

PAUSE_SECONDS = 1.0
"""Between claims while Redis is away."""

MOST_CLAIMS = 32
"""In one call: it keeps Redis busy for a few ms."""

LEAVE_SECONDS = 10.0
"""How long requests in flight may go on when the fetcher is told to end. What is left is queued again."""

_log = logging.getLogger("tarry.fetching")


class Engine:
    """One per process. `worker` names it in the frontier, `machine` what shares a way out to the network."""

    def __init__(
        self,
        trips: Trips,
        works: Works,
        attendant: Attendant,
        slots: Slots,
        waking: Waking,
        *,
        worker: str,
        machine: str,
    ) -> None:
        self._trips = trips
        self._works = works
        self._attendant = attendant
        self._slots = slots
        self._waking = waking
        self._worker = worker
        self._machine = machine
        self._held: dict[str, Claimed] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._ending = asyncio.Event()
        self._asked_lanes: dict[Lane, int] = {}
        self._nothing_claimed_since: float | None = None
        """Since when Redis has not answered claims (monotonic)."""

    def end(self) -> None:
        """No more jobs are taken; `run` returns when those at hand are done, or given back."""
        self._ending.set()
        self._waking.due_in(0)
        self._slots.wake()

    async def run(self) -> None:
        """Works until it is told to end. Raises what a part of it failed of: then nothing more is taken."""
        taking = asyncio.create_task(self._take())
        behind = [
            asyncio.create_task(work)
            for work in (self._waking.listen_forever(), self._works.renew_forever(), self._renew_forever())
        ]
        ending = asyncio.create_task(self._until_told())
        try:
            ended, _ = await asyncio.wait([ending, taking, *behind], return_when=asyncio.FIRST_COMPLETED)
            if ending not in ended:
                _log.error("a part of the fetcher has failed: it ends, to be started again")
            self.end()
            await asyncio.wait({taking}, timeout=LEAVE_SECONDS)  # what it is about to claim must not be lost
            await self._leave_all()
            for part in ended:
                part.result()  # raises what a part failed of
        finally:
            await _cancelled([ending, taking, *behind])

    async def _until_told(self) -> None:
        await self._ending.wait()

    async def _take(self) -> None:
        """Claims what is due, as long as there is room, and sleeps when nothing is."""
        while not self._ending.is_set():
            self._asked_lanes = self._slots.rooms
            if not self._asked_lanes:
                await self._slots.wait_for_room()
                continue
            self._waking.expect()
            try:
                found = await self._claim()
            except StoreUnavailable as error:
                self._nothing_claimed(error)
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            if isinstance(found[-1], Idle):  # the frontier knows that this fetcher sleeps only if it said so last
                await self._waking.sleep(min(found[-1].wait_seconds, self._opens_in()))

    def _opens_in(self) -> float:
        """Seconds until another lane may open of itself."""
        return math.inf if "slow" in self._asked_lanes else self._slots.forgets_in

    async def _claim(self) -> list[Claimed | Doomed | Idle]:
        """Begins what it gets. Raises StoreUnavailable."""
        if self._nothing_claimed_since is not None:  # what Redis has handed out meanwhile has not come here
            await self._trips.run(frontier.put_back(self._worker, list(self._held)))
        asked_at = time.monotonic()
        most = min(MOST_CLAIMS, max(self._asked_lanes.values()))  # the lanes share what is left
        terms = claims.starting_terms()
        found = await self._trips.run(frontier.claim_some(self._worker, self._machine, most, self._asked_lanes, terms))
        self._claims_again()
        for one in found:
            if not isinstance(one, Idle):
                self._begin(one, asked_at)
        return found

    def _nothing_claimed(self, error: StoreUnavailable) -> None:
        if self._nothing_claimed_since is None:
            self._nothing_claimed_since = time.monotonic()
            _log.warning("nothing can be claimed", extra={"error": str(error)})

    def _claims_again(self) -> None:
        if self._nothing_claimed_since is not None:
            seconds = time.monotonic() - self._nothing_claimed_since
            _log.warning("claims are answered again", extra={"seconds": round(seconds, 1)})
            self._nothing_claimed_since = None

    def _begin(self, found: Doomed | Claimed, asked_at: float) -> None:
        job = found.job if isinstance(found, Doomed) else found
        self._held[job.key] = job
        place = self._slots.take(job.lane)
        self._start(self._attend(found, asked_at, job, place))

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _slow(self, job: Claimed, place: Place) -> None:
        """A download turns out slow: it goes on in the slow lane, for this fetcher and for its domain."""
        if place.lane == "fast":
            place.move("slow")
            self._start(self._tell_slow(job))

    async def _tell_slow(self, job: Claimed) -> None:
        with suppress(StoreUnavailable):  # then its domain does not know for this once
            await self._trips.run(frontier.move(job.key, "slow"))

    async def _attend(self, found: Doomed | Claimed, asked_at: float, job: Claimed, place: Place) -> None:
        try:
            if isinstance(found, Doomed):
                await self._attendant.dismiss(found)
            else:
                await self._attendant.attend(
                    found, asked_at, partial(self._slow, job, place), partial(self._leave, place)
                )
        except StoreUnavailable as error:  # its lease lapses, and another fetcher does it again
            _log.warning("a job is left behind", extra={"host": job.host, "job": job.key, "error": str(error)})
        except Exception:  # noqa: BLE001  the edge of a process: one job must not take the others along
            # Not its URL, which may hold secrets: the key has its digest, as the timings do.
            _log.exception("a job failed", extra={"host": job.host, "job": job.key})
        finally:
            if self._held.get(job.key) is job:
                del self._held[job.key]
            self._leave(place)

    def _leave(self, place: Place) -> None:
        place.leave()
        if self._slots.rooms.keys() - self._asked_lanes.keys():  # what is due there was not asked for
            self._waking.due_in(0)

    async def _renew_forever(self) -> None:
        """Shows that this fetcher is there, and sets leases anew, every third of them."""
        while True:
            try:
                await self._renew()
            except StoreUnavailable as error:
                _log.warning("leases are not renewed", extra={"error": str(error)})
            await asyncio.sleep(politeness().lease / 3)

    async def _renew(self) -> None:
        await self._trips.run(frontier.sign_in(self._worker))
        if self._held:
            lost = await self._trips.run(frontier.renew(list(self._held.values())))
            for key in lost.intersection(self._held):  # others have ended in the same trip
                _log.warning("a job is somebody else's by now", extra={"key": key})

    async def _leave_all(self) -> None:
        """Waits for what is in flight, then gives back what is not done."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=LEAVE_SECONDS)
        left = list(self._held.values())
        await _cancelled(self._tasks)
        await asyncio.gather(*map(self._attendant.give_back, left), return_exceptions=True)


async def _cancelled(tasks: Iterable["asyncio.Task[None]"]) -> None:
    """Cancels them, and waits until they have ended, though not for ever."""
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    if tasks:
        _, left = await asyncio.wait(tasks, timeout=LEAVE_SECONDS)
        for task in left:
            _log.error("a part of the fetcher does not end", extra={"part": repr(task)})
