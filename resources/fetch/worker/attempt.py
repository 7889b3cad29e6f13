"""One request for a job: planned from its calls, sent by its egress, in turn at every host on its route, recorded.

A redirect to another domain takes a turn there, as if a job of that domain had been claimed. Such turns do not
count as in flight there.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import cast

from resources.database import run_in_thread
from retry.errors import StoreUnavailable

from .. import conf as fetch_conf
from ..frontier import politeness, queue
from ..frontier.jobs import ClaimedJob, TurnTooFar
from ..http import limit_scopes
from ..http.client import FetchClient, OnSlowBody, may_send_from
from ..http.deadlines import FetchPolicy
from ..http.limit_scopes import url_scopes
from ..http.messages import BodyDropped, Failure, FetchError, FetchFailed, FetchRequest, Head, Outcome, OutcomeTiming
from ..task import FetchTask, SparingFetchTask, TaskCall
from ..timings import FetchRecord, TimingRecorder
from . import counts
from .handovers import HandoverResults
from .held_claims import RedisTrips
from .planner import RequestPlanner
from .timers import LateCalls

_log = logging.getLogger("tarry.fetching")


@dataclass(frozen=True, slots=True)
class BodySparer:
    """The decisions of a task in one fetch, which is for this call alone."""

    task: SparingFetchTask
    call: TaskCall

    async def decide(self, head: Head) -> bool:
        """Returns True to drop the body."""
        if not self.task.may_know(head):
            return False
        asked = run_in_thread(self.task.is_known, head, *self.call.arguments)
        return await self._answer(asked, "the task does not say whether to spare a body")

    async def onward(self, url: str) -> bool:
        """Returns True to leave out the request that a redirect leads to."""
        asked = run_in_thread(self.task.stops_before, url, *self.call.arguments)
        return await self._answer(asked, "the task does not say whether to spare a request")

    async def refuses_head(self, url: str) -> None:
        """Notes that a GET succeeded where a HEAD had failed. If that fails, a later HEAD is sent in vain."""
        await self._answer(run_in_thread(self.task.refuses_head, url), "not remembered")

    async def _answer(self, asked: Awaitable[bool | None], complaint: str) -> bool:
        try:
            return bool(await asked)
        except Exception:  # noqa: BLE001  the edge of a process: the fetch goes on without an answer
            _log.exception(complaint, extra={"work": self.call.work_key})
            return False


def find_sparer(calls: Sequence[TaskCall]) -> BodySparer | None:
    """Returns the sparer of a single call, else None: a body that one call can spare may be new to another."""
    if len(calls) != 1:
        return None
    task = fetch_conf.find_task(calls[0].task)
    return BodySparer(cast(SparingFetchTask, task), calls[0]) if _is_sparing(type(task)) else None


@cache
def _is_sparing(kind: type[FetchTask]) -> bool:
    """Replaces isinstance(), which checks each name anew each time."""
    own = vars(SparingFetchTask).keys() - vars(FetchTask).keys()
    return all(hasattr(kind, name) for name in own if not name.startswith("_"))


def own_egresses() -> list[str]:
    """Returns the names of the egresses that this machine has: proxies, and addresses of its own."""
    return [
        egress.name
        for egress in queue.configured_egresses()
        if egress.source_address is None or may_send_from(egress.source_address)
    ]


class EgressClients(AsyncExitStack):
    """Runs as `async with EgressClients(policy) as clients`. Closes its clients at the end."""

    def __init__(self, policy: FetchPolicy) -> None:
        super().__init__()
        self._policy = policy
        self._clients: dict[str, FetchClient] = {}
        self._opening = asyncio.Lock()

    async def client_for(self, job: ClaimedJob) -> FetchClient:
        if not job.egress and "" in self._clients:
            return self._clients[""]
        egress = limit_scopes.find_egress(queue.configured_egresses(), job.egress, url_scopes(job.url).registrable)
        name = "" if egress is None else egress.name
        async with self._opening:  # many jobs may come at once
            if name not in self._clients:
                source_address, proxy = (None, None) if egress is None else (egress.source_address, egress.proxy)
                client = FetchClient(self._policy, source_address=source_address, proxy=proxy)
                self._clients[name] = await self.enter_async_context(client)
        return self._clients[name]


MIN_MEASURED_BYTES = 65_536
"""Smaller bodies tell of delays, not of speed."""
MAX_KNOWN_SPEEDS = 10_000
LAST_SPEED_SHARE = 0.3
"""The weight of the last body in the mean."""


class ServerSpeeds:
    """Bytes a second by domain: a mean in which older bodies count less and less. The least recent are forgotten."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, float] = OrderedDict()

    def note(self, scope: str, timing: OutcomeTiming) -> None:
        """Adds the speed of one fetch, if its body is large enough."""
        seconds = timing.seconds - (timing.head_seconds or 0)
        if timing.wire_bytes < MIN_MEASURED_BYTES or timing.head_seconds is None or seconds <= 0:
            return
        speed = timing.wire_bytes / seconds
        before = self._known.pop(scope, speed)
        self._known[scope] = before * (1 - LAST_SPEED_SHARE) + speed * LAST_SPEED_SHARE
        if len(self._known) > MAX_KNOWN_SPEEDS:
            self._known.popitem(last=False)

    def of(self, scope: str) -> float | None:
        return self._known.get(scope)


MAX_TURN_WAIT_SECONDS = 10.0
"""Longest wait of a fetch for a turn after a redirect, or from the head of a file to its body."""

LATE_REQUEST_SECONDS = 0.05
"""A request later than that after its claim first asks whether its domain rests since."""

QUICK_SETTLING_SECONDS = 0.1
"""Claims settled in that time are reported together with the job's end. The domain does not wait for longer."""

WITHOUT_HEADS_SECONDS = 3600.0
"""Time for which a domain without a turn for the body soon after the head gets no HEAD first."""
MAX_DOMAINS_WITHOUT_HEADS = 1000


@dataclass(frozen=True, slots=True)
class _TakenTurn:
    """A turn at a host that a redirect led to, and when it was taken (monotonic)."""

    url: str
    at: float
    is_paced: bool


class AttemptRunner:
    """Sends the requests of one fetcher, for any number of jobs at a time."""

    def __init__(self, trips: RedisTrips, egresses: EgressClients, recorder: TimingRecorder) -> None:
        self._trips = trips
        self._egresses = egresses
        self._recorder = recorder
        self._speeds = ServerSpeeds()
        self.planner = RequestPlanner()
        self.handovers = HandoverResults()
        self.late_reports = LateCalls(QUICK_SETTLING_SECONDS)
        self._without_heads: OrderedDict[str, float] = OrderedDict()

    async def send_request(
        self,
        job: ClaimedJob,
        claimed_at: float,
        fetch: FetchRequest,
        on_slow: OnSlowBody | None = None,
        calls: Sequence[TaskCall] = (),
    ) -> Outcome:
        """Sends the request of these calls, on the record; or two, if the head comes first.

        `claimed_at`: when the claim was sent (monotonic). `on_slow` is called once if the body turns out slow.
        Raises StoreUnavailable.
        """
        if time.monotonic() - claimed_at > LATE_REQUEST_SECONDS:
            rest_seconds = await self._trips.run(queue.read_domain_rest(job.scope))
            if rest_seconds > 0:
                detail, nothing = "its host has asked for time", OutcomeTiming(time.time(), 0)
                return FetchFailed(Failure.POSTPONED, detail, nothing, retry_after_seconds=rest_seconds)
        spares = find_sparer(calls)
        if spares is None or not fetch.head_first or self._without_heads.get(job.scope, 0) > time.monotonic():
            return await self._ask(job, fetch, on_slow, spares)
        first = await self._ask(job, replace(fetch, method="HEAD"), None, spares)
        if isinstance(first, BodyDropped) or (isinstance(first, FetchFailed) and _says_nothing_of_head(first)):
            return first
        try:
            await self._turn(job.egress, fetch.url)
        except FetchError as error:
            self._go_without_heads(job.scope)
            timing = OutcomeTiming(first.timing.started_at, first.timing.seconds)
            return FetchFailed(error.failure, error.detail, timing, retry_after_seconds=error.retry_after_seconds)
        if not isinstance(first, FetchFailed):  # the task has decided
            return await self._ask(job, fetch, on_slow, None)
        outcome = await self._ask(job, fetch, on_slow, spares)
        if not isinstance(outcome, FetchFailed):
            await spares.refuses_head(fetch.url)
        return outcome

    async def _ask(
        self, job: ClaimedJob, fetch: FetchRequest, on_slow: OnSlowBody | None, spares: BodySparer | None
    ) -> Outcome:
        client = await self._egresses.client_for(job)
        speed = self._speeds.of(job.scope)
        if speed is not None:
            fetch = replace(fetch, limits=replace(fetch.limits, learnt_bytes_per_second=speed))
        turns_taken = list[_TakenTurn]()
        turn = partial(self._turn, job.egress, taken=turns_taken)
        decide, onward = (spares.decide, spares.onward) if spares else (None, None)
        outcome = await client.fetch(fetch, decide, on_slow, turn, onward)
        if isinstance(outcome, FetchFailed):
            if outcome.failure is Failure.THROTTLED and politeness.failed_elsewhere(outcome):
                await self._report_refusal_elsewhere(job, outcome)
        elif turns_taken:
            await self._report_served_turn(job, turns_taken[-1], outcome.timing)
        self._speeds.note(job.scope, outcome.timing)
        host = job.host if fetch.url == job.url else None
        record = FetchRecord.of(fetch, outcome, scope=job.scope, lane=job.lane, egress=job.egress, host=host)
        self._recorder.add(record)
        counts.count_fetch(record)
        return outcome

    async def _turn(self, egress: str, url: str, taken: "list[_TakenTurn] | None" = None) -> None:
        """Waits for a turn at a domain that a redirect leads to. Raises FetchError if it is too far away."""
        try:
            found = await self._trips.run(queue.take_turn(url, egress, MAX_TURN_WAIT_SECONDS))
        except StoreUnavailable as error:
            raise FetchError(Failure.OURS, "the turn at the next host is unknown: Redis is away") from error
        if isinstance(found, TurnTooFar):
            text = "it was redirected to a host that is left alone for now"
            raise FetchError(Failure.POSTPONED, text, retry_after_seconds=found.wait_seconds)
        if taken is not None:
            taken.append(_TakenTurn(url, time.monotonic(), found.is_paced))
        await asyncio.sleep(found.wait_seconds)

    async def _report_served_turn(self, job: ClaimedJob, last: _TakenTurn, timing: OutcomeTiming) -> None:
        """Reports the answer to the domain that a redirect led to, which learns its rate from that."""
        since, latency = time.monotonic() - last.at, timing.answer_seconds[-1]
        with suppress(StoreUnavailable):  # then it learns from the next
            await self._trips.run(
                queue.report_served_turn(last.url, job.egress, since, latency, is_paced=last.is_paced)
            )

    def _go_without_heads(self, scope: str) -> None:
        self._without_heads[scope] = time.monotonic() + WITHOUT_HEADS_SECONDS
        while len(self._without_heads) > MAX_DOMAINS_WITHOUT_HEADS:
            self._without_heads.popitem(last=False)

    async def _report_refusal_elsewhere(self, job: ClaimedJob, failed: FetchFailed) -> None:
        """Reports a refusal to the host that refused, which is not the job's own."""
        latency_seconds, wait_seconds = failed.timing.seconds, failed.retry_after_seconds or 0
        await self._trips.insist(
            partial(queue.report_refused_turn, failed.url, job.egress, latency_seconds, wait_seconds)
        )


def _says_nothing_of_head(failed: FetchFailed) -> bool:
    """True if a GET would fail as well: there was no answer, or the host rests now."""
    return failed.status is None or failed.failure in {Failure.THROTTLED, Failure.POSTPONED, Failure.OURS}
