"""The end of a job: what its outcome means, who is told, and what the frontier is told of it."""

import asyncio
import random
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial

from django.conf import settings

from retry.errors import PreparationError, StoreUnavailable

from .. import conf
from ..addressing import signed_urls
from ..errands import Errand, settles_waits
from ..outcomes import Failed, Failure, Fetched, Outcome
from ..queues import frontier
from ..queues.frontier import End, Hold, PutBack, TryAgain
from ..queues.jobs import Again as QueuedAgain
from ..queues.jobs import Claimed, Ended, Job, More, Report, Stale, Verdict, Wish
from ..transport.giving_up import Again, Patience
from . import judging, telling
from .trips import Trips
from .works import Closing, Works

QUICK_SECONDS = 0.1
"""What is told to everybody in that time is reported together with its end. The domain does not wait for longer."""

ASKED_TO_WAIT = frozenset({Failure.THROTTLED, Failure.POSTPONED})


class Concluder:
    """Ends the jobs of one fetcher. `machine` is as in frontier.claim()."""

    def __init__(self, trips: Trips, works: Works, machine: str) -> None:
        self._trips = trips
        self._works = works
        self._machine = machine

    async def begin(self, job: Claimed, begun: list[Errand], late: Iterable[Wish] | None = None) -> list[Errand]:
        """Those that are still wanted, of all or of those that came late. They are `begun` from now on."""
        if late is not None:
            started = await telling.begin(self._works, telling.errands_of(late), job.token, {})
        else:
            errands = telling.errands_of(job.wishes)
            await self._put_back_unread(job, errands)
            started = await telling.begin(self._works, errands, job.token, job.starts)
        begun += started
        return started

    async def _put_back_unread(self, job: Claimed, errands: Iterable[Errand]) -> None:
        """Works that started with the job though this version cannot tell what they are: they wait to be swept."""
        unread = job.starts.keys() - {errand.work_key for errand in errands}
        for wish in job.wishes:
            if wish.id in unread:
                await self._works.requeue(wish.id, wish.order, job.token, 0)

    async def conclude(
        self, job: Claimed, errands: list[Errand], outcome: Outcome, leaves: Callable[[], None], begun: list[Errand]
    ) -> None:
        """Asks for the job again, or tells everybody and ends it. Raises StoreUnavailable."""
        if judging.was_quick(job, outcome, settings.FETCH_SLOW_AFTER_SECONDS):  # the next time in the fast lane
            with suppress(StoreUnavailable):
                await self._trips.run(frontier.move(job.key, "fast"))
        attempts = job.attempts + 1
        step = judging.step_after(outcome, attempts=attempts, patience=_patience(errands), random=random.random)
        if isinstance(step, Again):
            again = TryAgain(step.delay_seconds, counts=judging.counts(outcome))
            reply = await self.report(job, judging.report_of(outcome), again)
            if isinstance(reply, QueuedAgain):
                await self._wait(job, errands, outcome, reply.wait_seconds)
                return
            if isinstance(reply, Stale):  # queued by a call whose reply was lost, or by a reaper
                await self._put_back(job, errands, step.delay_seconds)
                await self._wait(job, errands, outcome, step.delay_seconds)
                return
            await telling.tell(self._works, errands, outcome)
        elif await self._tell_and_report(job, errands, outcome, leaves):
            return
        await self.finish(job, outcome, begun)

    async def _tell_and_report(
        self, job: Claimed, errands: list[Errand], outcome: Outcome, leaves: Callable[[], None]
    ) -> bool:
        """Whether the job has ended with its report. When telling everybody takes long, the report does not wait."""
        report, held = judging.report_of(outcome), list[asyncio.Task[object]]()

        def hold() -> None:
            held.append(asyncio.create_task(self.report(job, report, Hold())))

        soon = asyncio.get_running_loop().call_later(QUICK_SECONDS, hold)
        try:
            left = await self._tell(errands, outcome)
            soon.cancel()
            if not held:
                leaves()
                return isinstance(await self._report_the_end(job, report, left), Ended)
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
            self._works.let_go(errands)
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

    async def finish(self, job: Claimed, outcome: Outcome | None, begun: list[Errand]) -> None:
        """Ends a held job. Those who have joined meanwhile are told too, or queued anew."""
        told, version, untold = set(job.wishes), job.version, list[Wish]()
        while isinstance(reply := await self._trips.insist(partial(frontier.finish, job, version)), More):
            late = [wish for wish in reply.wishes if wish not in told]
            if isinstance(outcome, Fetched | Failed):
                await telling.tell(self._works, await self.begin(job, begun, late), outcome)
            else:  # nothing that everybody can use
                untold += late
            told.update(late)
            version = reply.version
        for wish in untold:
            await self._trips.run(frontier.enqueue(_again(job, wish)))

    async def give_back(self, job: Claimed) -> None:
        """The job is queued again as if it had not been claimed."""
        if isinstance(await self.report(job, Report(Verdict.UNSENT), PutBack()), Stale):
            await self._put_back(job, telling.errands_of(job.wishes), 0)

    async def _put_back(self, job: Claimed, errands: Iterable[Errand], wait_seconds: float) -> None:
        """What started with a job, and does not wait with it yet."""
        for errand in errands:
            await self._works.put_back(errand, job.token, wait_seconds)

    async def _report_the_end(self, job: Claimed, report: Report, left: Closing | None) -> object:
        """Of the job, and of the work that is left to be ended, in one step."""
        ending = left.ending if left else None
        ended, reply = await self._trips.insist(
            lambda: frontier.report_and_finish(job, self._machine, report, End(job.version), ending)
        )
        if left:
            self._works.has_ended(left, ended=ended)
        return reply

    async def report(self, job: Claimed, report: Report, then: frontier.Next) -> object:
        """Raises StoreUnavailable."""
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
