"""One job of a fetcher, from its claim to its end: begin, plan, attempt, settle, report.

    begin     the claims of the waiters' calls start; most have started with the job, in the same step of Redis
    plan      the tasks of the calls name one request; a call may turn out impossible, or done
    attempt   the request is sent, in turn and on the record
    settle    the claim of each call ends, with contents or with a failure record
    report    the domain learns from the outcome; the job ends, or is queued again with its calls

A job ends with its last claim, in one step. If settling takes long, the report comes first: its domain goes on
meanwhile. Then the job of a single call ends too, and that of several is held. A fetcher that dies at any point leaves
leases: the job's lapses, and another fetcher does it again, for those calls that have not ended. A fetcher that is told
to end gives the job back.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar

from django.conf import settings

from resources.database import run_in_thread
from retry.contents import Prepared
from retry.errors import PreparationError, StoreUnavailable

from .. import conf
from ..frontier import politeness, queue
from ..frontier.jobs import (
    ClaimedJob,
    DeadJob,
    FetchJob,
    FetchLane,
    JobEnded,
    JobLost,
    JobRequeued,
    MoreWaiters,
    RateVerdict,
    RequestReport,
    Waiter,
)
from ..frontier.queue import EndJob, HoldJob, PutJobBack, RetryJob
from ..http import url_syntax
from ..http.client import OnSlowBody
from ..http.messages import BodyDropped, Failure, Fetched, FetchError, FetchFailed, FetchRequest, Outcome
from ..http.retry_policy import RetryPatience, choose_retry_seconds
from ..task import SparingFetchTask, TaskCall, fence_of, find_handover, is_at_once, settles_waits
from . import robots
from .attempt import AttemptRunner
from .held_claims import CallEnd, HeldClaims, RedisTrips, failed_end
from .planner import FetchPlan

Result = TypeVar("Result")

LAPSED_CLAIM_SECONDS = 5.0
"""Pause before a job is tried again whose claims have lost their fetcher: about when the sweeper has found them."""

FAILURES_ASKING_TO_WAIT = frozenset({Failure.THROTTLED, Failure.POSTPONED})

UNSENT = RequestReport(RateVerdict.UNSENT)

_log = logging.getLogger("tarry.fetching")


class JobRun:
    """The run of one job in this fetcher. `claimed_at` is when its claim was sent (monotonic).

    `machine` is as in queue.claim_jobs(). `claims` are those of its calls: the engine renews them while it runs.
    """

    def __init__(
        self, found: ClaimedJob | DeadJob, claimed_at: float, trips: RedisTrips, attempts: AttemptRunner, machine: str
    ) -> None:
        self.job = found.job if isinstance(found, DeadJob) else found
        self.claims = HeldClaims(trips, self.job)
        self.is_job_over = False
        """True when the frontier has no such job any more: the claim of its call is still to end."""
        self._found = found
        self._claimed_at = claimed_at
        self._trips = trips
        self._attempts = attempts
        self._machine = machine
        self._on_handed_over: Callable[[], None] | None = None
        self._calls: list[TaskCall] = []
        """The calls to be settled with the outcome."""

    async def carry_out(
        self, on_slow: OnSlowBody, on_handed_over: Callable[[], None], on_settled: Callable[[], None]
    ) -> None:
        """Fetches the job, and ends it or has it queued again. Raises StoreUnavailable.

        `on_slow` is called once if the body turns out slow, `on_handed_over` when the answer has only to be stored,
        `on_settled` when only the report of the end is left.
        """
        self._on_handed_over = on_handed_over
        if isinstance(self._found, DeadJob):
            failed = politeness.dead_job_failure(self._found, time.time())
            await self._settle(await self._begin(self.job.waiters, self.job.starts), failed)
            await self._finish(failed)
        elif not (self.job.needs_robots and await self._attempt_robots()):
            await self._carry_out_request(on_slow, on_settled)

    async def give_back(self) -> None:
        """Queues the job again as if it had not been claimed: this fetcher ends. Raises StoreUnavailable."""
        if isinstance(await self._report(UNSENT, PutJobBack()), JobLost):
            await self._put_back(_parse_calls(self.job.waiters), 0)

    async def change_lane(self, lane: FetchLane) -> None:
        """Moves the job, and its URL the next time, to that lane."""
        with suppress(StoreUnavailable):  # then the frontier does not know for this once
            await self._trips.run(queue.move_job(self.job.key, lane))

    async def _carry_out_request(self, on_slow: OnSlowBody, on_settled: Callable[[], None]) -> None:
        started = await self._begin(self.job.waiters, self.job.starts)
        fetch = await self._plan(started)
        if fetch is None:
            await self._end_without_request(is_wanted=bool(started))
            return
        outcome = await self._attempts.send_request(self.job, self._claimed_at, fetch, on_slow, self._calls)
        try:
            await self._conclude(outcome, on_settled)
        finally:
            if isinstance(outcome, Fetched):
                outcome.body.discard()

    async def _begin(self, waiters: Iterable[Waiter], starts: Mapping[str, int]) -> list[TaskCall]:
        """Starts the claims; `starts` are known results. Returns the calls still wanted.

        Claims that started with the job, but that this version cannot parse, are requeued: they wait to be swept.
        """
        calls = _parse_calls(waiters)
        unread = starts.keys() - {call.work_key for call in calls}
        for waiter in waiters:
            if waiter.id in unread:
                await self.claims.put_back(waiter.id, waiter.token, 0)
        started = await _gather([self.claims.start(call, starts.get(call.work_key)) for call in calls])
        return [call for call in started if call is not None]

    async def _plan(self, started: list[TaskCall]) -> FetchRequest | None:
        """Returns the request. Task calls that turn out impossible, or done, are ended; the others wait for it."""
        try:
            plan = await self._attempts.planner.plan(started)
        except Exception:  # noqa: BLE001  the edge of a process: an error of a task fails its calls alone
            _log.exception("no plan", extra={"works": [call.work_key for call in started]})
            plan = FetchPlan(impossible=dict.fromkeys(started, PreparationError("The preparation failed.")))
        for call, error in plan.impossible.items():
            await self.claims.fail(call, error, 0)
        for call, prepared in plan.done.items():
            await self.claims.store(call, prepared, 0)
        if plan.impossible or plan.done:
            started = [call for call in started if call not in plan.impossible and call not in plan.done]
        self._calls = started
        return plan.fetch

    async def _end_without_request(self, *, is_wanted: bool) -> None:
        """Ends a job without waiters; or waits, if claims of its waiters lost their fetcher and lapse in a moment."""
        if not is_wanted and await self.claims.are_claimed(_parse_calls(self.job.waiters)):
            await self._report(UNSENT, RetryJob(LAPSED_CLAIM_SECONDS))
            return
        await self._report(UNSENT, HoldJob())
        await self._finish(None)

    async def _attempt_robots(self) -> bool:
        """Uses the turn for the origin's robots.txt, if there can be one. The job keeps its place in line."""
        try:
            fetch = robots.robots_request(self.job.url, conf.fast_limits())
        except FetchError:  # an address that is not fetched: the job itself will fail
            return False
        outcome = await self._attempts.send_request(self.job, self._claimed_at, fetch)
        is_ours = isinstance(outcome, FetchFailed) and outcome.failure is Failure.OURS
        if not (is_ours or politeness.was_put_off(outcome)):
            found = await asyncio.to_thread(robots.read_crawl_delay, outcome, conf.PRODUCT_NAME)
            set_delay = partial(queue.set_crawl_delay, self.job.scope, found.seconds, found.known_for_seconds)
            await self._trips.insist(set_delay)
        await self._report(politeness.build_report(outcome), PutJobBack())
        return True

    async def _conclude(self, outcome: Outcome, on_settled: Callable[[], None]) -> None:
        """Has the job queued again, or settles its calls and ends it."""
        if politeness.was_quick(self.job, outcome, conf.fast_limits().slow_after_seconds):
            await self.change_lane("fast")
        if isinstance(outcome, FetchFailed) and (seconds := self._choose_retry_seconds(outcome)) is not None:
            if await self._retry(outcome, seconds):
                return
            await self._settle(self._calls, outcome)
        elif await self._settle_and_report(outcome, on_settled):
            return
        await self._finish(outcome)

    def _choose_retry_seconds(self, failed: FetchFailed) -> float | None:
        return choose_retry_seconds(
            failed.failure,
            attempts=self.job.attempts + 1,
            retry_after_seconds=failed.retry_after_seconds,
            patience=_patience_for(self._calls),
            random=random.random,
        )

    async def _retry(self, failed: FetchFailed, delay_seconds: float) -> bool:
        """Has the job queued again, with its calls. Returns False if the retries of its domain are used up."""
        again = RetryJob(delay_seconds, counts=politeness.counts_as_attempt(failed))
        match await self._report(politeness.build_report(failed), again):
            case JobRequeued(wait_seconds):
                await self._send_away(failed, wait_seconds)
            case JobLost():  # queued by a call whose reply was lost, or by a reaper
                await self._put_back(self._calls, delay_seconds)
                await self._send_away(failed, delay_seconds)
            case _:
                return False
        return True

    async def _send_away(self, failed: FetchFailed, wait_seconds: float) -> None:
        """Ends the claims of a job that is queued again if its calls would wait for longer than clients do.

        Tasks that settle waits themselves receive the failure.
        """
        if wait_seconds <= settings.DEFAULT_RETRY_TIMEOUT:
            return
        for call in self._calls:
            with suppress(StoreUnavailable):  # then its turn comes, and it is no longer wanted
                await self._trips.run(queue.withdraw_waiter(self.job.key, call.work_key))
        settled = [call for call in self._calls if settles_waits(conf.find_task(call.task))]
        if settled:
            await self._settle(settled, failed)
        status = 503 if failed.failure in FAILURES_ASKING_TO_WAIT else 502
        error = PreparationError(f"The origin: {failed.detail}.", status=status, retry_seconds=wait_seconds)
        for call in self._calls:
            if call not in settled:
                await self.claims.fail(call, error, failed.timing.seconds)

    async def _settle_and_report(self, outcome: Outcome, on_settled: Callable[[], None]) -> bool:
        """Returns True if the job has ended with its report. If settling takes long, the report does not wait."""
        report, early = politeness.build_report(outcome), list[asyncio.Task[object]]()
        then = EndJob(self.job.version) if len(self._calls) == 1 else HoldJob()

        def report_early() -> None:
            early.append(asyncio.create_task(self._report(report, then)))

        self._attempts.late_reports.add(report_early)
        try:
            last = await self._settle_but_last(outcome)
            self._attempts.late_reports.withdraw(report_early)
            if not early:
                on_settled()
                return isinstance(await self._report(report, EndJob(self.job.version), last), JobEnded)
            if last:
                await self.claims.finish(last)
            return isinstance(await early[0], JobEnded)
        finally:
            self._attempts.late_reports.withdraw(report_early)
            for task in early:
                task.cancel()

    async def _settle_but_last(self, outcome: Outcome) -> CallEnd | None:
        """Settles the calls; returns the end of a single one, to be reported with the job's.

        Of several, the first does not wait for the last.
        """
        if len(self._calls) == 1:
            return await self._prepare_end(self._calls[0], outcome)
        await self._settle(self._calls, outcome)
        return None

    async def _settle(self, calls: Sequence[TaskCall], outcome: Outcome) -> None:
        """Ends the claims: with contents, or with failure records. An error of a task fails its work alone."""

        async def settle_call(call: TaskCall) -> None:
            await self.claims.finish(await self._prepare_end(call, outcome))

        await _gather([settle_call(call) for call in calls])

    async def _prepare_end(self, call: TaskCall, outcome: Outcome) -> CallEnd:
        """Has the contents prepared and stored. Does not end the claim."""
        began = time.monotonic()
        try:
            prepared = await self._prepare_contents(call, outcome)
            self._hand_over()
        except PreparationError as error:
            return failed_end(call, error, outcome.timing.seconds)
        except Exception:  # noqa: BLE001  the edge of a process: any error is a failed preparation
            _log.exception("preparation failed", extra={"work": call.work_key})
            return failed_end(call, PreparationError("The preparation failed."), outcome.timing.seconds)
        return await self.claims.keep(call, prepared, outcome.timing.seconds + time.monotonic() - began)

    def _hand_over(self) -> None:
        """Notes that the answer to a single call is another's to store: of the task's thread, or of Redis."""
        if self._on_handed_over and len(self._calls) == 1:
            self._on_handed_over()

    async def _prepare_contents(self, call: TaskCall, outcome: Outcome) -> Mapping[str, Prepared]:
        """Returns the contents. Raises the errors of the task."""
        task = conf.find_task(call.task)
        fence = fence_of(task, call)
        handover = find_handover(task)
        if handover and not isinstance(outcome, BodyDropped):
            handed = handover.hand_over(outcome, *call.arguments, **fence)
            if handed is not None:
                self._hand_over()
                return await self._attempts.handovers.wait_for(handed)
        if isinstance(outcome, BodyDropped):
            assert isinstance(task, SparingFetchTask), "no other task has bodies dropped"
            found = await run_in_thread(task.prepare, outcome, *call.arguments, **fence)
        elif is_at_once(task) and not (isinstance(outcome, Fetched) and outcome.body.path):
            found = task.prepare(outcome, *call.arguments, **fence)
        else:
            found = await run_in_thread(task.prepare, outcome, *call.arguments, **fence)
        return await asyncio.wrap_future(found) if isinstance(found, Future) else found

    async def _put_back(self, calls: Iterable[TaskCall], wait_seconds: float) -> None:
        """Requeues claims that started with this job, and do not wait with it yet."""
        for call in calls:
            await self.claims.put_back(call.work_key, call.token, wait_seconds)

    async def _report(self, report: RequestReport, then: queue.AfterReport, last: CallEnd | None = None) -> object:
        """Reports the request, and the end of the last claim, in one step."""
        claim_end = last.ending if last else None
        ended, reply = await self._trips.insist(
            partial(queue.report_and_finish_work, self.job, self._machine, report, then, claim_end)
        )
        if last:
            self.claims.has_ended(last, ended=ended)
        self.is_job_over = isinstance(reply, JobEnded)
        return reply

    async def _finish(self, outcome: Outcome | None) -> None:
        """Ends a held job. Waiters that have joined meanwhile are settled too, or queued anew."""
        known, version, unserved = set(self.job.waiters), self.job.version, list[Waiter]()
        while isinstance(reply := await self._trips.insist(partial(queue.finish_job, self.job, version)), MoreWaiters):
            late = [waiter for waiter in reply.waiters if waiter not in known]
            if isinstance(outcome, Fetched | FetchFailed):
                await self._settle(await self._begin(late, {}), outcome)
            else:  # the outcome is of no use to others
                unserved += late
            known.update(late)
            version = reply.version
        for waiter in unserved:
            await self._trips.run(queue.enqueue_job(_build_job_anew(self.job, waiter)))


def _parse_calls(waiters: Iterable[Waiter]) -> list[TaskCall]:
    """Parses the waiters' calls, whose claims have new tokens since they started with the job.

    A call that cannot be parsed is of another version: its claim is swept.
    """
    found = []
    for waiter in waiters:
        try:
            found.append(TaskCall.parse(waiter.payload, waiter.token))
        except ValueError as error:
            _log.error("not a task call", extra={"waiter": waiter.id, "error": str(error)})
    return found


def _build_job_anew(job: ClaimedJob, waiter: Waiter) -> FetchJob:
    return FetchJob(
        job.url,
        job.key,
        waiter,
        priority=job.priority,
        lane=job.lane,
        expires_at=url_syntax.find_url_expiry(job.url),
        obeys_robots=any(conf.find_task(call.task).obeys_robots for call in _parse_calls([waiter])),
        detail=job.detail,
        egress=job.egress,
    )


def _patience_for(calls: Iterable[TaskCall]) -> RetryPatience:
    """Returns the patience of the most patient of the calls."""
    patience = conf.retry_patience()
    if not all(settles_waits(conf.find_task(call.task)) for call in calls):
        return patience
    return replace(patience, slow_attempts=1)


async def _gather(parts: Sequence[Coroutine[None, None, Result]]) -> list[Result]:
    """Runs them side by side; a single one, the usual case, without a task, which would cost more than most of them."""
    return [await parts[0]] if len(parts) == 1 else await asyncio.gather(*parts)
