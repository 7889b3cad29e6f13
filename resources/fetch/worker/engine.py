"""The engine: claims jobs from the frontier as long as there are slots, and runs them side by side.

It claims jobs of the domains that its fetcher owns, and sleeps while nothing is due.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from functools import partial
from typing import Any

from retry import claims
from retry.conf import conf as retry_conf
from retry.errors import StoreUnavailable

from ..frontier import queue
from ..frontier.jobs import ClaimedJob, DeadJob, FetchLane, NothingDue
from ..frontier.queue import configured_politeness
from . import attempt, counts
from .attempt import AttemptRunner
from .held_claims import RedisTrips
from .job_run import JobRun
from .timers import WakeListener

RECENT_PEAK_SECONDS = 60.0
"""The fast lane's recent peak is reserved for so long at the least, and twice as long at the most."""


class Slot:
    """Room for one job. It counts in its lane until it is left, or moved."""

    def __init__(self, slots: "SlotPool", lane: FetchLane) -> None:
        self.lane = lane
        self._slots = slots
        self._is_left = False
        self._is_handed_over = False

    def move(self, lane: FetchLane) -> None:
        """Moves to another lane. That is never refused: it must free its slot in the lane before."""
        self._slots.count(lane, 1)
        self._slots.count(self.lane, -1)
        self.lane = lane

    def leave(self) -> bool:
        """Frees the slot, and returns True. The second time it does nothing, and returns False."""
        if self._is_left:
            return False
        self._is_left = True
        self._slots.count(self.lane, -1)
        return True

    def hand_over(self) -> bool:
        """Frees the slot of a job whose answer has only to be stored, and returns True.

        Returns False, and keeps it, while as many such answers are stored as there are slots: they are in memory.
        """
        if self._is_left or self._slots.handed_over >= self._slots.total:
            return False
        self._slots.handed_over += 1
        self._is_handed_over = True
        return self.leave()

    def end(self) -> None:
        """Notes that the job has ended. The slot was left before."""
        if self._is_handed_over:
            self._is_handed_over = False
            self._slots.handed_over -= 1


class SlotPool:
    """Counts the slots of both lanes. A caller checks that a lane is open before it takes a slot there.

    Either lane may use the other's free slots. But slow jobs stay long, and fast ones must find room at once:
    the slow lane takes no more than half of the slots, and of the other half those that the fast lane has not needed of
    late, but for a fifth of all, which it never takes. Fast jobs end soon: as long as the slow lane has less
    than half, the next free slot is its. In all there are no more than `total`, except for jobs that moved to the slow
    lane.
    """

    def __init__(self, total: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.total = total
        self._kept = max(1, total // 5)
        self._half = max(self._kept, total // 2)
        self.taken: dict[FetchLane, int] = {"fast": 0, "slow": 0}
        self.handed_over = 0
        """Jobs without a slot, whose answers are being stored."""
        self._clock = clock
        self._peak, self._peak_before, self._since = 0, 0, clock()
        self._freed = asyncio.Event()

    @property
    def rooms(self) -> dict[FetchLane, int]:
        """The free slots of each lane that is open, the lane to be claimed first in front."""
        fast, slow = self.taken["fast"], self.taken["slow"]
        left = self.total - fast - slow
        lanes: list[tuple[FetchLane, int]] = [
            ("fast", max(left, self._kept - fast)),
            ("slow", min(left, self.total - self._reserved() - slow)),
        ]
        if slow < self._half:
            lanes.reverse()
        return {lane: room for lane, room in lanes if room > 0}

    @property
    def forgets_in(self) -> float:
        """Seconds until the slow lane may open without a freed slot: less is reserved for the fast lane then."""
        return max(0.0, self._since + RECENT_PEAK_SECONDS - self._clock())

    def take(self, lane: FetchLane) -> Slot:
        self.count(lane, 1)
        return Slot(self, lane)

    def count(self, lane: FetchLane, change: int) -> None:
        self.taken[lane] += change
        counts.count_in_flight(lane, change)
        if change > 0:
            self._remember()
        else:
            self._freed.set()

    def wake(self) -> None:
        self._freed.set()

    async def wait_for_room(self) -> None:
        self._freed.clear()
        await self._freed.wait()

    def _reserved(self) -> int:
        self._remember()
        return min(max(self._peak, self._peak_before, self._kept), self.total - self._half)

    def _remember(self) -> None:
        """Notes the peak of the fast lane, since the last full minute and in the one before."""
        now, fast = self._clock(), self.taken["fast"]
        if now - self._since >= 2 * RECENT_PEAK_SECONDS:
            self._peak = fast
        if now - self._since >= RECENT_PEAK_SECONDS:
            self._peak_before, self._peak, self._since = self._peak, fast, now
        self._peak = max(self._peak, fast)


CLAIM_PAUSE_SECONDS = 1.0
"""Pause between claims while Redis is away."""

MAX_CLAIMS_PER_CALL = 48
"""Jobs per claim call: it keeps Redis busy for a few ms."""

FETCHER_LEAVE_SECONDS = 10.0
"""Time that requests in flight have left when the fetcher is told to end. The rest is queued again."""

_log = logging.getLogger("tarry.fetching")


class FetchEngine:
    """The loop of a fetcher, one per process. `worker` names it in the frontier, `machine` its shared network."""

    def __init__(
        self,
        trips: RedisTrips,
        attempts: AttemptRunner,
        slots: SlotPool,
        waking: WakeListener,
        *,
        worker: str,
        machine: str,
    ) -> None:
        self._trips = trips
        self._attempts = attempts
        self._slots = slots
        self._waking = waking
        self._worker = worker
        self._machine = machine
        self._egresses = attempt.own_egresses()
        self._runs: set[JobRun] = set()
        self._claimed: list[tuple[JobRun, Slot]] = []
        """Jobs that start when the next claim has been sent, or before a wait."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._ending = asyncio.Event()
        self._asked_lanes: dict[FetchLane, int] = {}
        self._unanswered_since: float | None = None
        """The moment since which Redis has not answered claims (monotonic)."""

    def end(self) -> None:
        """Stops claiming; `run` returns when the jobs at hand are done, or given back."""
        self._ending.set()
        self._waking.due_in(0)
        self._slots.wake()

    async def run(self) -> None:
        """Works until it is told to end. Raises the error of a failed part, after which no job is claimed."""
        taking = asyncio.create_task(self._take())
        behind = [
            asyncio.create_task(work)
            for work in (self._waking.listen_forever(), self._renew_claims_forever(), self._renew_forever())
        ]
        ending = asyncio.create_task(self._ending.wait())
        try:
            ended, _ = await asyncio.wait([ending, taking, *behind], return_when=asyncio.FIRST_COMPLETED)
            if ending not in ended:
                _log.error("a part of the fetcher has failed: it ends, to be started again")
            self.end()
            # Jobs that it is about to claim must not be lost.
            await asyncio.wait({taking}, timeout=FETCHER_LEAVE_SECONDS)
            await self._sign_out()
            await self._leave_all()
            for part in ended:
                part.result()  # raises the error of a failed part
        finally:
            await _cancel_all([ending, taking, *behind])

    async def _take(self) -> None:
        """Claims due jobs as long as there is room, and sleeps while none is due."""
        while not self._ending.is_set():
            self._asked_lanes = self._slots.rooms
            if not self._asked_lanes:
                self._start_claimed()
                await self._slots.wait_for_room()
                continue
            self._waking.expect()
            try:
                found = await self._claim_ahead()
            except StoreUnavailable as error:
                if self._unanswered_since is None:
                    self._unanswered_since = time.monotonic()
                    _log.warning("nothing can be claimed", extra={"error": str(error)})
                await asyncio.sleep(CLAIM_PAUSE_SECONDS)
                continue
            if isinstance(found[-1], NothingDue):  # the frontier knows that this fetcher sleeps only if it said so last
                await self._sleep(found[-1].wait_seconds)
        self._start_claimed()

    async def _sleep(self, seconds: float) -> None:
        """Sleeps for so long, or until another lane may open of itself."""
        seconds = min(seconds, math.inf if "slow" in self._asked_lanes else self._slots.forgets_in)
        if seconds > 0:
            self._start_claimed()
            await self._waking.sleep(seconds)

    async def _claim_ahead(self) -> list[ClaimedJob | DeadJob | NothingDue]:
        """Claims jobs; those of the last claim start beside it. Raises StoreUnavailable.

        They keep the event loop busy for as long as Redis takes, so the claim is sent first.
        """
        claiming = asyncio.create_task(self._claim())
        await asyncio.sleep(0)
        self._start_claimed()
        return await claiming

    async def _claim(self) -> list[ClaimedJob | DeadJob | NothingDue]:
        """Claims jobs, and takes their slots. Raises StoreUnavailable."""
        if self._unanswered_since is not None:  # jobs that Redis has handed out meanwhile did not arrive
            await self._trips.run(queue.requeue_unheld_jobs(self._worker, [run.job.key for run in self._runs]))
        asked_at = time.monotonic()
        most = min(MAX_CLAIMS_PER_CALL, max(self._asked_lanes.values()))  # the lanes share the free slots
        signs, lanes, terms = (self._worker, self._machine), self._asked_lanes, claims.start_terms()
        claiming = queue.claim_jobs(*signs, most, lanes, terms, egresses=self._egresses)
        found = await self._trips.run(claiming, alone=True)
        if self._unanswered_since is not None:
            away_seconds = round(time.monotonic() - self._unanswered_since, 1)
            _log.warning("claims are answered again", extra={"seconds": away_seconds})
            self._unanswered_since = None
        for one in found:
            if not isinstance(one, NothingDue):
                run = JobRun(one, asked_at, self._trips, self._attempts, self._machine)
                self._runs.add(run)
                self._claimed.append((run, self._slots.take(run.job.lane)))
        return found

    def _start_claimed(self) -> None:
        claimed, self._claimed = self._claimed, []
        for run, slot in claimed:
            self._start(self._carry_out(run, slot))

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry_out(self, run: JobRun, slot: Slot) -> None:
        try:
            leave = partial(self._leave, slot.leave)
            await run.carry_out(partial(self._slow, run, slot), partial(self._leave, slot.hand_over), leave)
        except StoreUnavailable as error:  # its lease lapses, and another fetcher does it again
            _log.warning("a job is left behind", extra={**_name_job(run), "error": str(error)})
        except Exception:  # noqa: BLE001  the edge of a process: one job must not take the others along
            _log.exception("a job failed", extra=_name_job(run))
        finally:
            self._runs.discard(run)
            self._leave(slot.leave)
            slot.end()

    def _slow(self, run: JobRun, slot: Slot) -> None:
        """Moves a slow download to the slow lane, for this fetcher and for its domain."""
        if slot.lane == "fast":
            slot.move("slow")
            self._start(run.change_lane("slow"))

    def _leave(self, leave: Callable[[], bool]) -> None:
        if not leave() or len(self._asked_lanes) == len(self._slots.taken):
            return
        if self._slots.rooms.keys() - self._asked_lanes.keys():  # due jobs of that lane were not claimed
            self._waking.due_in(0)

    async def _renew_forever(self) -> None:
        """Signs the fetcher in, and renews leases, every third of a lease."""
        while True:
            try:
                await self._renew()
            except StoreUnavailable as error:
                _log.warning("leases are not renewed", extra={"error": str(error)})
            await asyncio.sleep(configured_politeness().lease_seconds / 3)

    async def _sign_out(self) -> None:
        """Gives its domains up. Its requests in flight go on."""
        with suppress(StoreUnavailable):  # then others own them when its sign-in lapses
            await self._trips.run(queue.sign_out_fetcher(self._worker))

    async def _renew(self) -> None:
        self._egresses = attempt.own_egresses()  # an address may move to another machine
        if not self._ending.is_set():
            await self._trips.run(queue.sign_in_fetcher(self._worker, self._machine, self._egresses))
        if held := self._held_keys():
            lost = await self._trips.run(queue.renew_job_leases([run.job for run in self._runs if run.job.key in held]))
            for key in lost & self._held_keys():  # others have ended in the same trip
                _log.warning("another fetcher has the job by now", extra={"key": key})

    def _held_keys(self) -> set[str]:
        return {run.job.key for run in self._runs if not run.is_job_over}

    async def _renew_claims_forever(self) -> None:
        """Renews the leases of the claims that the runs hold, every third of a lease."""
        while True:
            await asyncio.sleep(retry_conf().RETRY_LEASE_SECONDS / 3)
            with suppress(StoreUnavailable):  # they are renewed the next time, if they have not lapsed
                await asyncio.gather(*(run.claims.renew() for run in self._runs))

    async def _leave_all(self) -> None:
        """Waits for jobs in flight, then gives back unfinished ones."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=FETCHER_LEAVE_SECONDS)
        left = list(self._runs)
        await _cancel_all(self._tasks)
        await asyncio.gather(*(run.give_back() for run in left), return_exceptions=True)


def _name_job(run: JobRun) -> dict[str, str]:
    """Names the job in logs, without its URL, which may hold secrets."""
    return {"host": run.job.host, "job": run.job.key}


async def _cancel_all(tasks: Iterable["asyncio.Task[Any]"]) -> None:
    """Cancels the tasks, and waits until they have ended, though not for ever."""
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    if tasks:
        _, left = await asyncio.wait(tasks, timeout=FETCHER_LEAVE_SECONDS)
        for task in left:
            _log.error("a part of the fetcher does not end", extra={"part": repr(task)})
