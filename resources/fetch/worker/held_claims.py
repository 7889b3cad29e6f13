"""The claims of the deferral protocol that a fetcher holds: started, renewed, ended, or requeued.

A fetcher's calls to Redis share trips, claims of jobs apart: while some are under way, calls gather for the next.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import TypeVar, cast

from django.conf import settings

from retry import claim_state, claims, contents, metrics, stores
from retry.claims import ClaimEnd
from retry.conf import cached_settings, conf
from retry.contents import Prepared
from retry.errors import PreparationError, StoreUnavailable
from retry.records import frozen_record
from retry.scripts import MAX_ITEMS_PER_CALL, Reply, ScriptCall, Server, join_calls
from retry.servers import AsyncClient
from retry.stores import AsyncClients, Steps

from ..frontier import queue
from ..frontier.jobs import ClaimedJob
from ..task import TaskCall
from . import counts

Result = TypeVar("Result")


MAX_CALLS_PER_TRIP = 200
MAX_TRIPS_UNDER_WAY = 2
"""Trips to one server: it works on one while the replies of the other are read."""

INSIST_PAUSE_SECONDS = 0.5
INSIST_SECONDS = 10.0
"""Time for which a result that has cost a fetch is reported again and again: shorter than a lease."""


class RedisTrips:
    """Carries out steps side by side, each at its own pace. For one event loop."""

    def __init__(self, clients: AsyncClients) -> None:
        self._clients = clients
        self._lines = {server: _TripLine(client, server) for server, client in clients.items()}

    async def run(self, steps: Steps[Result], *, alone: bool = False) -> Result:
        """Returns the result of the steps. Raises StoreUnavailable; a server may still carry them out later.

        Calls that go `alone` have trips of their own, at once.
        """
        reply: Reply = None
        while True:
            try:
                call = steps.send(reply)
            except StopIteration as end:
                return cast(Result, end.value)
            reply = await (self._ask_alone(call) if alone else self._lines[call.server].ask(call))

    async def _ask_alone(self, call: ScriptCall) -> Reply:
        [reply] = await stores.execute_all(self._clients[call.server], call.server, [call])
        if isinstance(reply, StoreUnavailable):
            raise reply
        return reply

    async def insist(self, steps: Callable[[], Steps[Result]]) -> Result:
        """Runs the steps again and again for several seconds. Only for steps that do no harm when carried out twice."""
        deadline = time.monotonic() + INSIST_SECONDS
        while True:
            try:
                return await self.run(steps())
            except StoreUnavailable:
                if time.monotonic() > deadline:
                    raise
            await asyncio.sleep(INSIST_PAUSE_SECONDS)


class _TripLine:
    """The calls that wait for a trip to one server."""

    def __init__(self, client: AsyncClient, server: Server) -> None:
        self._client = client
        self._server = server
        self._waiting: list[tuple[ScriptCall, asyncio.Future[Reply]]] = []
        self._under_way: set[asyncio.Task[None]] = set()

    def ask(self, call: ScriptCall) -> "asyncio.Future[Reply]":
        """Returns a future of the reply, or of StoreUnavailable."""
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting.append((call, future))
        if len(self._under_way) < MAX_TRIPS_UNDER_WAY:
            self._under_way.add(asyncio.create_task(self._travel()))
        return future

    async def _travel(self) -> None:
        try:
            while self._waiting:
                taken, self._waiting = self._waiting[:MAX_CALLS_PER_TRIP], self._waiting[MAX_CALLS_PER_TRIP:]
                await self._carry_out(taken)
        finally:  # at once: calls from now on must not wait for this trip
            self._under_way.discard(cast("asyncio.Task[None]", asyncio.current_task()))

    async def _carry_out(self, taken: list[tuple[ScriptCall, "asyncio.Future[Reply]"]]) -> None:
        calls, replies = [call for call, _ in taken], list[Reply]()
        try:
            replies += await self._execute(calls)
        except Exception as error:  # noqa: BLE001  raised in the callers
            replies += [error] * len(taken)
        for (_, future), reply in zip(taken, replies, strict=True):
            if future.done():  # the caller is gone
                continue
            if isinstance(reply, Exception):
                future.set_exception(reply)
            else:
                future.set_result(reply)

    async def _execute(self, calls: list[ScriptCall]) -> list[Reply]:
        """Executes the calls in one trip, those for items of one script as one call. Raises StoreUnavailable."""
        joined = join_calls(calls, MAX_ITEMS_PER_CALL)
        return joined.split_replies(await stores.execute_all(self._client, self._server, joined.calls))


_log = logging.getLogger("tarry.fetching")


@frozen_record
class CallEnd:
    """The end of a task call's claim, and the seconds of all its work."""

    call: TaskCall
    ending: ClaimEnd
    seconds: float


class HeldClaims:
    """The claims that are held for the calls of one job. `renew` renews their leases."""

    def __init__(self, trips: RedisTrips, job: ClaimedJob) -> None:
        self._trips = trips
        self._job = job
        self.held: dict[tuple[str, int], float] = {}
        """The claims by work key and token, and until when (monotonic) they are renewed."""

    async def start(self, call: TaskCall, outcome: int | None = None) -> TaskCall | None:
        """Turns a queued claim into a running one, with the job. Returns the call with the token that it has then.

        None: another has it, it is gone, or is not wanted. `outcome` is known if the claim was to start with its job.
        Raises StoreUnavailable.
        """
        if outcome is None:
            outcome, token = await self._trips.insist(lambda: queue.start_work(self._job, call.work_key))
            call = replace(call, token=token)
        if outcome == claims.SKIPPED:
            metrics.count_skip(call.task)
        if outcome != claims.STARTED:
            return None
        self.held[call.work_key, call.token] = time.monotonic() + _max_held_seconds()
        return call

    async def are_claimed(self, calls: Iterable[TaskCall]) -> bool:
        """Tells whether any of the calls has a claim. Raises StoreUnavailable."""
        looks = [self._trips.run(stores.make_single_step(claims.look_call(call.work_key))) for call in calls]
        found = map(claim_state.read_claim_state, await asyncio.gather(*looks))
        return any(isinstance(state, claim_state.ClaimTaken) for state in found)

    async def store(self, call: TaskCall, prepared: Mapping[str, Prepared], seconds: float) -> None:
        """Stores the contents behind their fences, then ends the claim. `seconds` is the time of all its work."""
        await self.finish(await self.keep(call, prepared, seconds))

    async def fail(self, call: TaskCall, error: PreparationError, seconds: float) -> None:
        await self.finish(failed_end(call, error, seconds))

    async def keep(self, call: TaskCall, prepared: Mapping[str, Prepared], seconds: float) -> CallEnd:
        """Stores the contents behind their fences. Does not end the claim."""
        try:
            await self._trips.insist(lambda: _storing_steps(call, prepared, seconds))
        except StoreUnavailable as error:
            _log.warning("refused by a store", extra={"work": call.work_key, "error": str(error)})
            return failed_end(call, PreparationError("The content could not be stored."), seconds)
        except PreparationError as error:
            return failed_end(call, error, seconds)
        except Exception:  # noqa: BLE001  contents that cannot be stored are their task's fault alone
            _log.exception("cannot be stored", extra={"work": call.work_key})
            return failed_end(call, PreparationError("The preparation failed."), seconds)
        return CallEnd(call, claims.stored_end(call.work_key, call.token, seconds), seconds)

    async def finish(self, end: CallEnd) -> None:
        try:
            ended = await self._trips.insist(lambda: stores.make_single_step(claims.finish_call(end.ending))) == 1
        except StoreUnavailable as refusal:  # the lease lapses, and the sweeper has the work done again
            _log.error("could not finish", extra={"work": end.call.work_key, "error": str(refusal)})
            ended = False
        self.has_ended(end, ended=ended)

    def has_ended(self, end: CallEnd, *, ended: bool) -> None:
        """Lets go of the claim. Without `ended`, another process had it by then."""
        self.held.pop((end.call.work_key, end.call.token), None)
        outcome = end.ending.outcome if ended else "superseded"
        counts.count_end(end.call.task, outcome, end.seconds)

    async def put_back(self, work_key: str, token: int, wait_seconds: float) -> None:
        """Turns a running claim into a queued one, if it started with the job: its turn comes in so long."""
        self.held.pop((work_key, token), None)
        requeueing = claims.requeue_call(work_key, token, wait_seconds, str(self._job.token))
        try:
            await self._trips.insist(lambda: stores.make_single_step(requeueing))
        except StoreUnavailable as error:  # the lease lapses: it is published once more, and joins its job
            _log.warning("could not put back", extra={"work": work_key, "error": str(error)})

    async def renew(self) -> None:
        """Renews the leases. Raises StoreUnavailable."""
        now = time.monotonic()
        renewals = [claims.renew_call(*claim) for claim, until in self.held.items() if now < until]
        await asyncio.gather(*(self._trips.run(stores.make_single_step(renewal)) for renewal in renewals))


def failed_end(call: TaskCall, error: PreparationError, seconds: float) -> CallEnd:
    """Returns the end that leaves a failure record."""
    return CallEnd(call, claims.failed_end(call.work_key, call.token, error, luck=random.random()), seconds)


def _storing_steps(call: TaskCall, prepared: Mapping[str, Prepared], seconds: float) -> Steps[None]:
    stored_at = datetime.now(UTC)
    for key, content in prepared.items():
        yield contents.store_call(key, content, call.token, stored_at, seconds)


@cached_settings
def _max_held_seconds() -> float:
    """Returns the longest time that a job is held: a fetch of the slow lane, and the preparation after it."""
    return settings.FETCH_SLOW_DEADLINE_SECONDS + conf().RETRY_MAX_PREPARE_SECONDS
