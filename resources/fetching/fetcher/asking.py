"""One request on behalf of a job: by its way out, in turn at every host that it comes to, on the record."""

import asyncio
import time
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from retry.errors import StoreUnavailable

from ..errors import FetchError
from ..keeping.records import Record
from ..keeping.timings import Recorder
from ..outcomes import Dropped, Failed, Failure, Outcome, Timing
from ..queues import turns
from ..queues.jobs import Claimed
from ..queues.turns import NotNow
from ..requests import Fetch
from ..transport.client import Slows
from . import judging, observing
from .sparing import Spares
from .speeds import Speeds
from .trips import Trips
from .ways import Ways

MOST_TURN_SECONDS = 10.0
"""How long a fetch waits, at most, to be sent on by a redirect, or from the head of a file to its body."""

LATE_SECONDS = 0.05
"""Whoever comes later than that from the claim to the request asks first whether its host is left alone since."""

NO_HEADS_SECONDS = 3600.0
"""For how long a domain that has no turn for the body soon after the head is not asked for heads first."""
MOST_WITHOUT_HEADS = 1000


@dataclass(frozen=True, slots=True)
class _Taken:
    """A turn at a host that a redirect led to, and when it was taken (monotonic)."""

    url: str
    at: float
    is_paced: bool


class Asker:
    """Asks for one fetcher, any number of jobs at a time."""

    def __init__(self, trips: Trips, ways: Ways, recorder: Recorder) -> None:
        self._trips = trips
        self._ways = ways
        self._recorder = recorder
        self._speeds = Speeds()
        self._without_heads: OrderedDict[str, float] = OrderedDict()

    async def ask(
        self, job: Claimed, claimed_at: float, fetch: Fetch, slows: Slows | None = None, spares: Spares | None = None
    ) -> Outcome:
        """One request, on the record; or two, where the head is to be asked for first.

        `claimed_at`: when the job was asked for (monotonic). Raises StoreUnavailable.
        """
        if time.monotonic() - claimed_at > LATE_SECONDS:
            rest_seconds = await self._trips.run(turns.rest(job.scope))
            if rest_seconds > 0:
                left_alone, nothing = "its host has asked for time", Timing(time.time(), 0)
                return Failed(Failure.POSTPONED, left_alone, nothing, retry_after_seconds=rest_seconds)
        if spares is None or not fetch.head_first or self._without_heads.get(job.scope, 0) > time.monotonic():
            return await self._ask(job, fetch, slows, spares)
        first = await self._ask(job, replace(fetch, method="HEAD"), None, spares)
        if isinstance(first, Dropped) or (isinstance(first, Failed) and _says_nothing_of_head(first)):
            return first
        try:
            await self._turn(job.egress, fetch.url)
        except FetchError as error:
            self._go_without_heads(job.scope)
            timing = Timing(first.timing.started_at, first.timing.seconds)
            return Failed(error.failure, error.detail, timing, retry_after_seconds=error.retry_after_seconds)
        if not isinstance(first, Failed):  # it has been decided
            return await self._ask(job, fetch, slows, None)
        outcome = await self._ask(job, fetch, slows, spares)
        if not isinstance(outcome, Failed):
            await spares.refuses_head(fetch.url)
        return outcome

    async def _ask(self, job: Claimed, fetch: Fetch, slows: Slows | None, spares: Spares | None) -> Outcome:
        client = await self._ways.client_for(job)
        speed = self._speeds.of(job.scope)
        if speed is not None:
            fetch = replace(fetch, limits=replace(fetch.limits, learnt_bytes_per_second=speed))
        turns_taken = list[_Taken]()
        turn = partial(self._turn, job.egress, taken=turns_taken)
        decide, onward = (spares.decide, spares.onward) if spares else (None, None)
        outcome = await client.fetch(fetch, decide, slows, turn, onward)
        if isinstance(outcome, Failed) and outcome.failure is Failure.THROTTLED and judging.was_elsewhere(outcome):
            await self._tell_elsewhere(job, outcome)
        if turns_taken and not isinstance(outcome, Failed):
            await self._tell_served(job, turns_taken[-1])
        self._speeds.note(job.scope, outcome.timing)
        record = Record.of(fetch, outcome, scope=job.scope, lane=job.lane, egress=job.egress)
        self._recorder.add(record)
        observing.fetched(record)
        return outcome

    async def _turn(self, egress: str, url: str, taken: "list[_Taken] | None" = None) -> None:
        """Waits for a turn at a domain that a redirect leads to. Raises FetchError when it is too far away."""
        try:
            found = await self._trips.run(turns.take(url, egress, MOST_TURN_SECONDS))
        except StoreUnavailable as error:
            raise FetchError(Failure.OURS, "nobody can say whether the next host may be asked") from error
        if isinstance(found, NotNow):
            said = "it was redirected to a host that is left alone for now"
            raise FetchError(Failure.POSTPONED, said, retry_after_seconds=found.wait_seconds)
        if taken is not None:
            taken.append(_Taken(url, time.monotonic(), found.is_paced))
        await asyncio.sleep(found.wait_seconds)

    async def _tell_served(self, job: Claimed, last: "_Taken") -> None:
        """The host that a redirect led to has answered: it learns from that how fast it may be asked."""
        since = time.monotonic() - last.at
        with suppress(StoreUnavailable):  # then it learns from the next
            await self._trips.run(turns.served(last.url, job.egress, since, is_paced=last.is_paced))

    def _go_without_heads(self, scope: str) -> None:
        self._without_heads[scope] = time.monotonic() + NO_HEADS_SECONDS
        while len(self._without_heads) > MOST_WITHOUT_HEADS:
            self._without_heads.popitem(last=False)

    async def _tell_elsewhere(self, job: Claimed, failed: Failed) -> None:
        """The host that refused is not the job's own."""
        latency_seconds = failed.timing.seconds
        await self._trips.insist(
            lambda: turns.refused(failed.url, job.egress, latency_seconds, failed.retry_after_seconds or 0)
        )


def _says_nothing_of_head(failed: Failed) -> bool:
    """Whether a GET would fail as well: there was no answer, or nobody gets one now."""
    return failed.status is None or failed.failure in {Failure.THROTTLED, Failure.POSTPONED, Failure.OURS}
