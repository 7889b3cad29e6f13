"""One request on behalf of a job: by its way out, in turn at every host that it comes to, on the record."""

import asyncio
from dataclasses import replace
from functools import partial

from retry.errors import StoreUnavailable

from ..errors import FetchError
from ..keeping.records import Record
from ..keeping.timings import Recorder
from ..outcomes import Failed, Failure, Outcome
from ..queues import turns
from ..queues.jobs import Claimed
from ..queues.turns import NotNow
from ..requests import Fetch
from ..transport.client import Slows
from . import judging, observing
from .speeds import Speeds
from .trips import Trips
from .ways import Ways

MOST_TURN_SECONDS = 10.0
"""How long a fetch waits, at most, to be sent on by a redirect."""


class Asker:
    """Asks for one fetcher, any number of jobs at a time."""

    def __init__(self, trips: Trips, ways: Ways, recorder: Recorder) -> None:
        self._trips = trips
        self._ways = ways
        self._recorder = recorder
        self._speeds = Speeds()

    async def ask(self, job: Claimed, fetch: Fetch, slows: Slows | None) -> Outcome:
        """One request, on the record."""
        client = await self._ways.client_for(job)
        limits = replace(fetch.limits, learnt_bytes_per_second=self._speeds.of(job.scope))
        turn = partial(self._turn, job.egress)
        outcome = await client.fetch(replace(fetch, limits=limits), slows=slows, turn=turn)
        if isinstance(outcome, Failed) and outcome.failure is Failure.THROTTLED and judging.was_elsewhere(outcome):
            await self._tell_elsewhere(job, outcome)
        self._speeds.note(job.scope, outcome.timing)
        record = Record.of(fetch, outcome, scope=job.scope, lane=job.lane, egress=job.egress)
        self._recorder.add(record)
        observing.fetched(record)
        return outcome

    async def _turn(self, egress: str, url: str) -> None:
        """Waits for a turn at a domain that a redirect leads to. Raises FetchError when it is too far away."""
        try:
            found = await self._trips.run(turns.take(url, egress, MOST_TURN_SECONDS))
        except StoreUnavailable as error:
            raise FetchError(Failure.OURS, "nobody can say whether the next host may be asked") from error
        if isinstance(found, NotNow):
            said = "it was redirected to a host that is left alone for now"
            raise FetchError(Failure.POSTPONED, said, retry_after_seconds=found.wait_seconds)
        await asyncio.sleep(found.wait_seconds)

    async def _tell_elsewhere(self, job: Claimed, failed: Failed) -> None:
        """The host that refused is not the job's own."""
        latency_seconds = failed.timing.seconds
        await self._trips.insist(
            lambda: turns.refused(failed.url, job.egress, latency_seconds, failed.retry_after_seconds or 0)
        )
