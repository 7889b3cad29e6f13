"""What is done for one job, from its claim to its outcome: begin what is wanted, plan, and ask once."""

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial

from retry.errors import PreparationError

from .. import conf
from ..errands import Errand
from ..errors import FetchError
from ..outcomes import Failed, Failure, Fetched
from ..queues import frontier
from ..queues.frontier import Hold, PutBack, TryAgain
from ..queues.jobs import Claimed, Doomed, Report, Verdict
from ..requests import Fetch
from ..transport.client import Slows
from . import judging, planning, robots, sparing, telling
from .asking import Asker
from .concluding import Concluder
from .planning import Plan
from .threads import in_thread
from .trips import Trips
from .works import Works

LAPSING_SECONDS = 5.0
"""When to look again after work whose claim has lost its fetcher: about when the sweeper has found it."""

_log = logging.getLogger("tarry.fetching")


class Attendant:
    """Attends to the jobs of one fetcher, any number at a time. `machine` is as in frontier.claim()."""

    def __init__(self, trips: Trips, works: Works, asker: Asker, machine: str) -> None:
        self._trips = trips
        self._works = works
        self._asker = asker
        self._concluder = Concluder(trips, works, machine)

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
            await telling.tell(self._works, await self._concluder.begin(doomed.job, begun), failed)
            await self._concluder.finish(doomed.job, failed, begun)
        finally:
            self._works.let_go(begun)

    async def _attend(
        self, job: Claimed, claimed_at: float, slows: Slows, leaves: Callable[[], None], begun: list[Errand]
    ) -> None:
        """The same, with a list of the errands that are in hand."""
        errands = await self._concluder.begin(job, begun)
        fetch = await self._plan(errands)
        if fetch is None:
            await self._leave(job, begun)
            return
        outcome = await self._asker.ask(job, claimed_at, fetch, slows, sparing.of(errands))
        try:
            await self._concluder.conclude(job, errands, outcome, leaves, begun)
        finally:
            if isinstance(outcome, Fetched):
                outcome.body.discard()

    async def _leave(self, job: Claimed, begun: list[Errand]) -> None:
        """Nobody wants it any more; or those who do lost their fetcher, and their claims lapse in a moment."""
        if not begun and await self._works.are_claimed(telling.errands_of(job.wishes)):
            await self._concluder.report(job, Report(Verdict.UNSENT), TryAgain(LAPSING_SECONDS))
            return
        await self._concluder.report(job, Report(Verdict.UNSENT), Hold())
        await self._concluder.finish(job, None, begun)

    async def give_back(self, job: Claimed) -> None:
        """The job is queued again as if it had not been claimed: this fetcher ends."""
        await self._concluder.give_back(job)

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
        await self._concluder.report(job, judging.report_of(outcome), PutBack())
        return True

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
