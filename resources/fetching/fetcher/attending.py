"""What is done for one job, from its claim to its end: ask once, and tell everybody who wants it."""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial

from django.conf import settings

from retry.errors import PreparationError, StoreUnavailable

from .. import conf
from ..addressing import signed_urls
from ..errands import Errand, settles_waits
from ..errors import FetchError
from ..outcomes import Failed, Failure, Fetched, Outcome
from ..queues import frontier
from ..queues.frontier import End, Hold, PutBack, TryAgain
from ..queues.jobs import Again as QueuedAgain
from ..queues.jobs import Claimed, Doomed, Job, More, Report, Stale, Verdict, Wish
from ..requests import Fetch
from ..transport.client import Slows
from ..transport.giving_up import Again, Patience
from . import judging, planning, robots, sparing, telling
from .asking import Asker
from .planning import Plan
from .threads import in_thread
from .trips import Trips
from .works import Closing, Works

QUICK_SECONDS = 0.1
"""What is told to everybody in that time is reported together with its end. The domain does not wait for longer."""

LAPSING_SECONDS = 5.0
"""When to look again after work whose claim has lost its fetcher: about when the sweeper has found it."""

ASKED_TO_WAIT = frozenset({Failure.THROTTLED, Failure.POSTPONED})

_log = logging.getLogger("tarry.fetching")


class Attendant:
    """Attends to the jobs of one fetcher, any number at a time. `machine` is as in frontier.claim()."""

    def __init__(self, trips: Trips, works: Works, asker: Asker, machine: str) -> None:
        self._trips = trips
        self._works = works
        self._asker = asker
        self._machine = machine

    async def attend(self, job: Claimed, claimed_at: float, slows: Slows, leaves: Callable[[], None]) -> None:
        """Asks for what is wanted, and ends the job or has it queued again. Raises StoreUnavailable.

        `claimed_at`: when it was asked for (monotonic). `slows` is called once if it turns out to be slow, `leaves`
        when nothing is left to be done but to report its end: the next may be claimed in the same trip.
        """
        begun: list[Errand] = []
        try:
            if not (job.needs_robots and await self._ask_robots(job, claimed_at)):
                await self._attend(job, claimed_at, slows, leaves, begun)
        finally:
            self._works.let_go(begun)

    async def dismiss(self, doomed: Doomed) -> None:
        """Tells everybody of a job that has failed without a request. Raises StoreUnavailable."""
        failed = judging.failure_of(doomed, time.time())
        begun: list[Errand] = []
        try:
            await telling.tell(self._works, await self._begin(doomed.job, begun), failed)
            await self._finish(doomed.job, failed, begun)
        finally:
            self._works.let_go(begun)

    async def _attend(
        self, job: Claimed, claimed_at: float, slows: Slows, leaves: Callable[[], None], begun: list[Errand]
    ) -> None:
        """The same, with a list of the errands that are in hand."""
        errands = await self._begin(job, begun)
        fetch = await self._plan(errands)
        if fetch is None:
            await self._leave(job, begun)
            return
        outcome = await self._asker.ask(job, claimed_at, fetch, slows, sparing.of(errands))
        try:
            await self._conclude(job, errands, outcome, leaves, begun)
        finally:
            if isinstance(outcome, Fetched):
                outcome.body.discard()

    async def _leave(self, job: Claimed, begun: list[Errand]) -> None:
        """Nobody wants it any more; or those who do lost their fetcher, and their claims lapse in a moment."""
        if not begun and await self._works.are_claimed(telling.errands_of(job.wishes)):
            await self._report(job, Report(Verdict.UNSENT), TryAgain(LAPSING_SECONDS))
            return
        await self._report(job, Report(Verdict.UNSENT), Hold())
        await self._finish(job, None, begun)

    async def give_back(self, job: Claimed) -> None:
        """The job is queued again as if it had not been claimed: this fetcher ends."""
        await self._report(job, Report(Verdict.UNSENT), PutBack())
        for errand in telling.errands_of(job.wishes):
            await self._works.put_back(errand, 0)

    async def _ask_robots(self, job: Claimed, claimed_at: float) -> bool:
        """Uses the turn for the origin's robots.txt, if there can be one. The job keeps its place in line."""
        try:
            fetch = robots.fetch(job.url, conf.fast_limits())
        except FetchError:  # an address that is not fetched: the job itself fails of that
            return False
        outcome = await self._asker.ask(job, claimed_at, fetch)
        is_ours = isinstance(outcome, Failed) and outcome.failure is Failure.OURS
        if not (is_ours or judging.was_put_off(outcome)):
            found = await asyncio.to_thread(robots.read, outcome, conf.PRODUCT)
            told = partial(frontier.set_crawl_delay, job.scope, found.seconds, found.known_for_seconds)
            await self._trips.insist(told)
        await self._report(job, judging.report_of(outcome), PutBack())
        return True

    async def _begin(self, job: Claimed, begun: list[Errand], late: Iterable[Wish] | None = None) -> list[Errand]:
        """Those that are still wanted, of all or of those that came late. They are `begun` from now on."""
        wishes = job.wishes if late is None else late
        started = await telling.begin(self._works, telling.errands_of(wishes), job.starts if late is None else {})
        begun += started
        return started

    async def _plan(self, errands: list[Errand]) -> Fetch | None:
        """What to ask for. Errands that turn out to be impossible, or done, are ended, and taken out of the list."""
        try:
            plan = planning.plan_at_once(errands)
            if plan is None:
                plan = await in_thread(planning.plan, errands)
        except Exception:  # noqa: BLE001  the edge of a process, as in telling.py
            _log.exception("no plan", extra={"works": [errand.work_key for errand in errands]})
            plan = Plan(impossible=dict.fromkeys(errands, PreparationError("The preparation failed.")))
        for errand, error in plan.impossible.items():
            errands.remove(errand)
            await self._works.fail(errand, error, 0)
        for errand, prepared in plan.done.items():
            errands.remove(errand)
            await self._works.store(errand, prepared, 0)
        return plan.fetch

    async def _conclude(
        self, job: Claimed, errands: list[Errand], outcome: Outcome, leaves: Callable[[], None], begun: list[Errand]
    ) -> None:
        if judging.was_quick(job, outcome, settings.FETCH_SLOW_AFTER_SECONDS):  # the next time in the fast lane
            with suppress(StoreUnavailable):
                await self._trips.run(frontier.move(job.key, "fast"))
        attempts = job.attempts + 1
        step = judging.step_after(outcome, attempts=attempts, patience=_patience(errands), random=random.random)
        if isinstance(step, Again):
            again = TryAgain(step.delay_seconds, counts=judging.counts(outcome))
            reply = await self._report(job, judging.report_of(outcome), again)
            if isinstance(reply, QueuedAgain | Stale):  # stale: queued by a call whose reply was lost, or by a reaper
                wait_seconds = reply.wait_seconds if isinstance(reply, QueuedAgain) else step.delay_seconds
                await self._wait(job, errands, outcome, wait_seconds)
                return
            await telling.tell(self._works, errands, outcome)
        elif await self._tell_and_report(job, errands, outcome, leaves):
            return
        await self._finish(job, outcome, begun)

    async def _tell_and_report(
        self, job: Claimed, errands: list[Errand], outcome: Outcome, leaves: Callable[[], None]
    ) -> bool:
        """Whether the job has ended with its report. When telling everybody takes long, the report does not wait."""
        report, held = judging.report_of(outcome), list[asyncio.Task[object]]()

        def hold() -> None:
            held.append(asyncio.create_task(self._report(job, report, Hold())))

        soon = asyncio.get_running_loop().call_later(QUICK_SECONDS, hold)
        try:
            left = await self._tell(errands, outcome)
            soon.cancel()
            if not held:
                leaves()
                return not isinstance(await self._report_the_end(job, report, left), More)
            if left:
                await self._works.finish(left)
            await held[0]
            return False
        finally:
            soon.cancel()
            for task in held:
                task.cancel()

    async def _tell(self, errands: list[Errand], outcome: Outcome) -> Closing | None:
        """What is left to be done for who alone wants it. Of several, the first does not wait for the last."""
        if len(errands) == 1:
            return await telling.keep(self._works, errands[0], outcome)
        await telling.tell(self._works, errands, outcome)
        return None

    async def _wait(self, job: Claimed, errands: list[Errand], outcome: Outcome, wait_seconds: float) -> None:
        """The job is queued again. Nobody is left to wait for longer than clients do."""
        if wait_seconds <= settings.DEFAULT_RETRY_TIMEOUT:
            for errand in errands:
                await self._works.put_back(errand, wait_seconds)
            return
        assert isinstance(outcome, Failed)
        for errand in errands:
            with suppress(StoreUnavailable):  # then its turn comes, and it is not wanted any more
                await self._trips.run(frontier.remove(job.key, errand.work_key))
        await self._send_away(errands, outcome, wait_seconds)

    async def _send_away(self, errands: list[Errand], failed: Failed, wait_seconds: float) -> None:
        """Ends the claims. Those whose tasks keep themselves when to come back are told what happened."""
        settled = [errand for errand in errands if settles_waits(conf.task(errand.task))]
        if settled:
            await telling.tell(self._works, settled, failed)
        status = 503 if failed.failure in ASKED_TO_WAIT else 502
        error = PreparationError(f"The origin: {failed.detail}.", status=status, retry_seconds=wait_seconds)
        for errand in errands:
            if errand not in settled:
                await self._works.fail(errand, error, failed.timing.seconds)

    async def _finish(self, job: Claimed, outcome: Outcome | None, begun: list[Errand]) -> None:
        """Ends a held job. Those who have joined meanwhile are told too, or queued anew."""
        told, version, untold = set(job.wishes), job.version, list[Wish]()
        while isinstance(reply := await self._trips.insist(partial(frontier.finish, job, version)), More):
            late = [wish for wish in reply.wishes if wish not in told]
            if isinstance(outcome, Fetched | Failed):
                await telling.tell(self._works, await self._begin(job, begun, late), outcome)
            else:  # nothing that everybody can use
                untold += late
            told.update(late)
            version = reply.version
        for wish in untold:
            await self._trips.run(frontier.enqueue(_again(job, wish)))

    async def _report_the_end(self, job: Claimed, report: Report, left: Closing | None) -> object:
        """Of the job, and of the work that is left to be ended, in one step."""
        ending = left.ending if left else None
        ended, reply = await self._trips.insist(
            lambda: frontier.report_and_finish(job, self._machine, report, End(job.version), ending)
        )
        if left:
            self._works.has_ended(left, ended=ended)
        return reply

    async def _report(self, job: Claimed, report: Report, then: frontier.Next) -> object:
        return await self._trips.insist(lambda: frontier.report(job, self._machine, report, then))


def _again(job: Claimed, wish: Wish) -> Job:
    """The same job anew, for one who joined too late."""
    obeys_robots = any(conf.task(errand.task).obeys_robots for errand in telling.errands_of([wish]))
    return Job(
        job.url,
        job.key,
        wish,
        priority=job.priority,
        lane=job.lane,
        expires_at=signed_urls.expires_at(job.url),
        obeys_robots=obeys_robots,
        detail=job.detail,
        egress=job.egress,
    )


def _patience(errands: Iterable[Errand]) -> Patience:
    """How often it is tried, for the most patient of those who want it."""
    patience = conf.patience()
    if not all(settles_waits(conf.task(errand.task)) for errand in errands):
        return patience
    return replace(patience, slow_attempts=1)
